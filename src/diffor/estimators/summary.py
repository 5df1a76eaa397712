"""What a fitted estimator is, on one screen: target, rows, columns, scores on rows held out, networks and time."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from sklearn.utils import estimator_html_repr

from diffor.estimators.cross_fitted import CrossFitted

if TYPE_CHECKING:
    from diffor.estimators.base import OrdinalEstimator

MOST_NAMES = 6


def facts_of(model: OrdinalEstimator) -> dict[str, str]:
    """Facts about a fitted estimator by what they are about, in words."""
    facts = {
        "model": f"{type(model).__name__}, preset {model.preset}, method {model.settings_.method}",
        "target": _target(model),
        "rows": _rows(model),
        "columns": _columns(model),
        "held-out rows": _scores(model),
        "networks": _networks(model),
        "training": f"{model.history_.steps} steps in {model.history_.seconds:.1f} s ({model.history_.stopped})",
        "intervals": "calibrated on held-out answers, no guarantee: conformalize(X, y) gives one",
    }
    if model.conformal_ is not None:
        facts["intervals"] = f"hold their coverage, calibrated on {model.conformal_.n_rows} rows of their own"
    elif not model.has_distribution:
        facts["intervals"] = "none: the method predicts a point"
    return facts


def as_text(model: OrdinalEstimator) -> str:
    """The facts, a line each."""
    facts = facts_of(model)
    width = max(map(len, facts)) + 2
    return "\n".join(f"{name:<{width}}{words}" for name, words in facts.items())


def as_html(model: OrdinalEstimator) -> str:
    """The facts as a table, and scikit-learn's own picture of the settings below it."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(words)}</td></tr>'
        for name, words in facts_of(model).items()
    )
    settings = f"<details><summary>Settings</summary>{estimator_html_repr(model)}</details>"
    return f'<table class="diffor-summary"><tbody>{rows}</tbody></table>{settings}'


def _target(model: Any) -> str:
    if hasattr(model, "classes_"):
        names = [str(grade) for grade in model.grades_]
        shown = names if len(names) <= 2 * MOST_NAMES else [*names[:MOST_NAMES], "...", names[-1]]
        return f"{len(names)} grades, {' < '.join(shown)}"
    if model.learns_share:
        return "a value from 0 to the limit of its row"
    source = "taken from the training rows" if model.bounds is None else "by bounds"
    return f"a value from {model.scale_.low:g} to {model.scale_.high:g} ({source})"


def _rows(model: OrdinalEstimator) -> str:
    summary = model.data_summary_ or {}
    if "rows" not in summary:
        return "not noted"
    apart = summary.get("validation_rows", 0)
    is_student = "student" in model.encoders_
    held = ", each held out once" if isinstance(model.model_, CrossFitted) and not is_student else ""
    held = f", {apart} to stop on" if apart else held
    return f"{summary['rows']} to learn from{held}"


def _columns(model: OrdinalEstimator) -> str:
    kinds = {"number": "numeric", "category": "categorical"}
    parts = [] if model.images_ is None else ["images"]
    for kind, word in kinds.items():
        names = [str(column.name) for column in model.inputs_.columns if column.kind == kind]
        shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
        parts += [f"{len(names)} {word} ({shown})"] if names else []
    return ", ".join(parts)


def _scores(model: OrdinalEstimator) -> str:
    found = model.held_out_scores_
    if found is not None:
        held = f"{found['coverage_90']:.0%}"
        unit = " in shares of the limit" if model.learns_share else ""
        return f"CRPS {found['crps']:.4g}, MAE {found['mae']:.4g}{unit}, 90 % intervals hold {held}"
    score = model.history_.best_score
    return "no score: there were none" if score is None else f"CRPS {score:.4g} at step {model.history_.best_step}"


def _networks(model: OrdinalEstimator) -> str:
    names = ", ".join(model.encoders_)
    if not isinstance(model.model_, CrossFitted):
        return names
    asked = [] if model.priors_ is None else model.priors_.names
    count = sum(kind.n_folds for kind in model.model_.networks)
    return f"{count} ({names}), advised by {', '.join(asked) or 'no priors'}"
