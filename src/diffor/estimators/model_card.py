"""The card of a fitted model: what it predicts, from what, how well, and what it must not be used for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from diffor.estimators.settings import PRESETS, Settings
from diffor.files.provenance import versions
from diffor.methods import METHODS

MOST_COLUMNS = 50
"""Columns that a card lists; a wide table has too many to read."""
MOST_RECORDS = 10
"""Evaluations of the training that a card lists."""
TASKS = {
    ("table", "values"): "tabular-regression",
    ("table", "grades"): "tabular-classification",
    ("images", "grades"): "image-classification",
}
"""The hub's words for tasks; it has none for values of images."""
LIMITS = (
    "Answers never leave the range of the target, so values beyond it cannot be foreseen.",
    "Rows that differ from the training rows get answers that look as sure as all others.",
    "Text that was not seen in training counts as unknown; more or other columns are refused.",
    "config.json lists the categories of text columns: do not publish it where they are private.",
)


def model_card(
    model: Any,
    *,
    name: str | None = None,
    metrics: Mapping[str, float] | None = None,
    data: str | None = None,
    license: str | None = None,
    description: str = "",
) -> str:
    """The card of a fitted estimator as Markdown with metadata that the Hugging Face hub reads.

    ``metrics`` are figures of rows that training has not seen, by name; ``data`` names the data, ``license`` is the
    hub's word for the licence under which the model is passed on.
    """
    title = name or f"{type(model).__name__} for {_kind(model)[1]}"
    figures = dict(metrics or {})
    if model.history_.best_score is not None:
        figures = {f"{_held_out(model)} CRPS": model.history_.best_score, **figures}
    parts = [
        _front_matter(model, title, figures, data, license),
        f"# {_plain(title)}",
        description or _opening(model),
        "## Use",
        _usage(model),
        "## Figures",
        _figures(model, figures),
        "## Data",
        _data(model, data),
        "## Settings",
        _settings(model),
        "## Training",
        _training(model),
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(model)),
        "## Versions",
        ", ".join(f"{package} {version}" for package, version in versions().items()),
    ]
    return "\n\n".join(parts) + "\n"


def _kind(model: Any) -> tuple[str, str]:
    """What a model reads and what it predicts."""
    return "table" if model.images_ is None else "images", "grades" if hasattr(model, "classes_") else "values"


def _front_matter(model: Any, title: str, figures: Mapping[str, float], data: str | None, license: str | None) -> str:
    """The metadata: each line's value is JSON, which is YAML as well."""
    task = TASKS.get(_kind(model), "other")
    meta: dict[str, Any] = {"library_name": "diffor", "tags": ["diffor", "ordinal-regression", "uncertainty"]}
    if task != "other":
        meta["pipeline_tag"] = task
    if license is not None:
        meta["license"] = license
    if figures:
        names = (data or "held-back rows", *figures)
        source, *listed = [{"type": "-".join(name.lower().split()), "name": name} for name in names]
        measured = [one | {"value": float(value)} for one, value in zip(listed, figures.values(), strict=True)]
        results = [{"task": {"type": task}, "dataset": source, "metrics": measured}]
        meta["model-index"] = [{"name": title, "results": results}]
    lines = [f"{key}: {json.dumps(value, allow_nan=False)}" for key, value in meta.items()]
    return "\n".join(["---", *lines, "---"])


def _opening(model: Any) -> str:
    reads, predicts = _kind(model)
    source = "rows of a table" if reads == "table" else "images"
    answer = "a grade of an ordered scale" if predicts == "grades" else "a value in a range"
    method = METHODS[model.settings_.method]
    return (
        f"Predicts {answer} from {source}, with its whole distribution: point, quantiles, intervals and probabilities "
        f"come from one model, a {type(model).__name__} of the library DiffoR"
        f" with the method {method.title}" + (f" ({method.paper})." if method.paper else ".")
    )


def _usage(model: Any) -> str:
    is_graded, name = hasattr(model, "classes_"), type(model).__name__
    ask = "predict_proba(X)  # of each grade" if is_graded else "predict_interval(X, coverage=0.9)"
    return f"""```python
from diffor import {name}

model = {name}.from_pretrained("THIS_REPOSITORY_OR_FOLDER")
model.predict(X)
model.{ask}
```

`pip install 'diffor[hub]'` for repositories; folders need nothing more. Loading runs no code of the folder."""


def _figures(model: Any, figures: Mapping[str, float]) -> str:
    if not figures:
        return "None: there were no validation rows."
    table = _table(("figure", "value"), [(key, f"{value:.4g}") for key, value in figures.items()])
    if model.history_.best_score is None:
        return table
    return f"{table}\n\nThe {_judges(model)} also chose when to stop and how wide to answer, so their figure flatters."


def _held_out(model: Any) -> str:
    """What a model's own score was taken on: rows set apart, or training rows by networks that never saw them."""
    summary = model.data_summary_ or {}
    return "validation" if summary.get("validation_rows", 1) else "out-of-fold"


def _judges(model: Any) -> str:
    return "out-of-fold answers" if _held_out(model) == "out-of-fold" else "validation rows"


def _data(model: Any, data: str | None) -> str:
    summary = model.data_summary_ or {}
    facts = [("data", data)] if data else []
    facts += [(words, summary[key]) for key, words in (("rows", "training rows"),
              ("validation_rows", "validation rows")) if key in summary]  # fmt: skip
    if hasattr(model, "classes_"):
        counts = summary.get("target", {}).get("counts", [""] * len(model.grades_))
        facts += [(f"grade {grade}", count) for grade, count in zip(model.grades_, counts, strict=True)]
    else:
        ends = "0 to the limit of its row" if model.learns_share else f"{model.scale_.low:g} to {model.scale_.high:g}"
        facts.append(("legal range of the target", ends))
        what = "share of the limit" if model.learns_share else "target"
        facts += [(f"{what}, {key}", f"{value:.4g}") for key, value in summary.get("target", {}).items()]
    if model.conformal_ is not None:
        facts.append(("calibration rows, for guaranteed coverage", model.conformal_.n_rows))
    columns = model.inputs_.columns
    listed = [(str(column.name), column.kind, _describe(column)) for column in columns[:MOST_COLUMNS]]
    more = f"\n\nand {len(columns) - MOST_COLUMNS} more" if len(columns) > MOST_COLUMNS else ""
    table = _table(("column", "kind", "in training"), listed) + more if listed else "Images only, no columns."
    return f"{_table(('', ''), facts)}\n\n{table}"


def _describe(column: Any) -> str:
    """What training rows held in a column."""
    if column.kind == "number":
        missing = ", some missing" if column.has_missing else ""
        return f"around {column.centre:.4g}, typically {column.spread:.4g} off{missing}"
    if column.levels is None:
        return "very many levels"
    shown = ", ".join(column.levels[:5])
    return f"{len(column.levels)} levels: {shown}{', ...' if len(column.levels) > 5 else ''}"


def _settings(model: Any) -> str:
    """The settings in which the model differs from its preset."""
    used, usual = vars(model.settings_), vars(PRESETS.get(model.preset, Settings()))
    # Where first weights of a network of images lay is nobody else's business.
    changed = [(name, str(used[name])) for name in used if used[name] != usual[name] and name != "encoder_weights"]
    table = _table(("setting", "value"), changed)
    return f"Preset `{model.preset}`" + (f", with these in its place:\n\n{table}" if changed else ".")


def _training(model: Any) -> str:
    history = model.history_
    text = f"{history.steps} steps in {history.seconds:.1f} s ({history.stopped}); the weights are those of step "
    text += f"{history.best_step}. Members: {', '.join(model.encoders_)}."
    if not history.records:
        return text
    stride = -(-len(history.records) // MOST_RECORDS)
    shown = history.records[::-stride][::-1]  # with the last
    names = [name for name in shown[0] if name != "seconds"]
    rows = [[f"{record[name]:.4g}" if name in record else "" for name in names] for record in shown]
    return f"{text}\n\n{_table(names, rows)}"


def _limits(model: Any) -> list[str]:
    limits = list(LIMITS)
    if model.conformal_ is None:
        limits.append(f"Intervals are calibrated on {_judges(model)}, not guaranteed.")
    else:
        limits.append("Guaranteed coverage holds for rows exchangeable with the calibration rows, and on average.")
    if not model.has_distribution:
        limits.append("The method predicts a point: it does not say how sure it is.")
    return limits


def _table(heading: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(_plain(str(cell)) for cell in line) + " |" for line in lines)


def _plain(text: str) -> str:
    """Text that stays in its cell and means nothing to Markdown.

    >>> _plain("a|b\\n<i>")
    'a\\\\|b &lt;i&gt;'
    """
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
