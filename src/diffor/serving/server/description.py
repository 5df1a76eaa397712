"""What clients are told about the model: columns, range, training, versions; and the form of requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from diffor.encoders.tabular.inputs import CategoryColumn, NumericColumn
from diffor.errors import UserError
from diffor.estimators.chain import has_increments
from diffor.estimators.values import N_RANGES
from diffor.files.provenance import versions
from diffor.serving.server.columns import Columns, example_of
from diffor.serving.server.rows import check_rows

Grade = bool | int | float | str
MAX_COLUMNS = 500
"""Columns of models whose columns are compared by how far they move an answer."""
MAX_LEVELS = 4
"""Levels of a category that are tried beside the typical one."""
QUARTILE = 0.6745
"""Distance of a quartile from the centre, in spreads."""


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how long everybody may wait."""

    max_rows: int = 1000
    max_bytes: int = 8 * 2**20
    max_seconds: float = 30.0
    max_waiting: int = 20_000
    """Rows of all requests together that may wait for answers."""
    max_levels: int = 256
    max_images: int = 16


class RowAnswer(BaseModel):
    """What the model says about one row."""

    point: Grade = Field(description="the value or the grade that the model answers with")
    quantiles: dict[str, float] | None = Field(description="values by level; null for grades and points")
    interval: list[Grade] | None = Field(description="lowest and highest value or grade that the coverage asks for")
    grades: dict[str, float] | None = Field(description="probability of each grade; null for values")
    increments: list[float] | None = Field(description="expected increment of each scale, in the target's units")
    novel: list[str] = Field(
        description="columns whose value is unlike training: far outside its range, or a new level"
    )


class Origin(BaseModel):
    """Which model an answer comes from."""

    name: str = Field(description="the name of the model's folder")
    version: str | None = Field(description="when the model was saved")
    hash: str | None = Field(description="changes with everything in the model's folder")


class Answers(BaseModel):
    """Answers in the order of the rows."""

    predictions: list[RowAnswer] = Field(description="one answer for each row")
    coverage: float | None = Field(description="probability with which an interval holds the target")
    warnings: list[str] = Field(description="what to know about these answers, such as levels never seen in training")
    model: Origin = Field(description="which model answered")


class Step(BaseModel):
    """One step of the reverse chain."""

    time: int = Field(description="the time of the step, from the number of times down to 1")
    noise: float = Field(description="share of noise at this time")
    values: list[float] = Field(description="what each chain would be answered with, if it ended here")
    levels: list[float] = Field(description="how far the range is filled up to and with each increment")


class Steps(BaseModel):
    """One row from all noise to none."""

    n_times: int = Field(description="number of times of the noise process")
    steps: list[Step] = Field(description="from the noisiest to the last")
    model: Origin = Field(description="which model answered")


class Health(BaseModel):
    """Whether the server answers, and how much it has to do."""

    status: str = Field(description="ok")
    waiting: int = Field(description="rows that wait for an answer")


class Ready(BaseModel):
    """Whether to send requests to the server."""

    status: str = Field(description="ready")
    model: Origin = Field(description="which model answers")


class Problem(BaseModel):
    """One thing that is wrong with a request."""

    type: str
    loc: list[str | int]
    msg: str


class Problems(BaseModel):
    """Why a request was refused."""

    detail: list[Problem]


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problems, "description": reason}
    for status, reason in {
        401: "the token is missing or wrong",
        403: "a browser asked for another page than the server's own",
        408: "the request did not arrive in time",
        413: "too many rows or bytes",
        415: "another kind of content than the model reads",
        421: "the server was asked under a name that is not its own",
        422: "something in the request is wrong; each field is named",
        503: "too much is waiting, or the server is stopping",
        504: "the answer took too long",
    }.items()
}


def describe_model(model: Any, columns: Columns, limits: Limits, facts: dict[str, Any]) -> dict[str, Any]:
    """All that clients are told about a model; ``facts`` are those that its folder knows, such as the target's name."""
    told = columns.to_json()
    if model.images_ is None:
        moves = influences(model, columns)
        for column in told:
            column["influence"] = moves.get(column["name"])
    is_graded, history = hasattr(model, "classes_"), model.history_
    edges, high = np.linspace(0.0, 1.0, N_RANGES + 1), model.scale_.high
    edges = edges * high if is_graded else model.scale_.from_unit(edges)
    if model.learns_share:  # the largest limit of training stands for those of rows to come
        high = (model.data_summary_ or {}).get("largest_limit", 1.0)
        edges = edges * high
    return {
        **facts,
        "estimator": type(model).__name__,
        "method": model.settings_.method,
        "columns": told,
        "images": None if model.images_ is None else {"side": model.images_.inputs.side},
        "bounds": [model.scale_.low, high],
        "limit": None if is_graded else model.limit,
        "grades": model.grades_.tolist() if is_graded else None,
        "has_distribution": model.has_distribution,
        "has_interval": model.has_distribution or model.conformal_ is not None,
        "n_samples": model.settings_.n_samples,
        "calibration_rows": None if model.conformal_ is None else model.conformal_.n_rows,
        # Ends of the increments' intervals when all are full, in the target's units.
        "increment_edges": np.asarray(edges).tolist() if model.has_distribution else None,
        "has_chain": has_increments(model),
        "training": {
            "validation_crps": history.best_score,
            "best_step": history.best_step,
            "steps": history.steps,
            "seconds": history.seconds,
            "stopped": history.stopped,
            "members": len(model.encoders_),
        },
        "limits": asdict(limits),
        "versions": versions(),
    }


def influences(model: Any, columns: Columns) -> dict[str, float]:
    """How far the mean answer to a typical row moves when one column changes, as a share of the farthest.

    Numbers go to their quartiles, categories to their first levels, so that people who fill in a form see first what
    matters. It is no measure of importance: columns that act together, or far from typical rows, are not seen. Empty
    where the model cannot answer such rows, or has very many columns.
    """
    typical = {column["name"]: example_of(column) for column in columns.to_json()}
    changed = [(str(one.name), value) for one in columns.features[:MAX_COLUMNS] for value in _others(one)]
    if not changed or len(columns.features) > MAX_COLUMNS:
        return {}
    rows = [typical, *({**typical, name: value} for name, value in changed)]
    try:
        checked = check_rows(rows, columns, len(rows))
        means = np.asarray(model.predict_distribution(checked.table, **checked.side).mean, dtype=np.float64)
    except UserError:
        return {}
    found = dict.fromkeys(columns.feature_names, 0.0)
    for (name, _), move in zip(changed, np.abs(means[1:] - means[0]).tolist(), strict=True):
        found[name] = max(found[name], move)
    largest = max(found.values())
    return {name: move / largest for name, move in found.items()} if largest > 0 else {}


def _others(column: NumericColumn | CategoryColumn) -> list[float | str]:
    """Values of a column beside its typical one."""
    if isinstance(column, CategoryColumn):
        return list((column.levels or [])[1 : 1 + MAX_LEVELS])
    low, high = column.range
    step = QUARTILE * column.spread
    return [max(low, column.centre - step), min(high, column.centre + step)] if step else []


def _limit_schema(word: str) -> dict[str, Any]:
    number = {"type": ["number", "null"]}
    about = (
        f"what the value of each row is no {word} than: a number for all rows, or one or null for each; answers are cut"
    )
    return {"oneOf": [number, {"type": "array", "items": number}], "description": about}


LIMITS_SCHEMA = {"lower": _limit_schema("less"), "upper": _limit_schema("more")}
OPTIONS_SCHEMA: dict[str, Any] = {
    "quantiles": {
        "type": "array",
        "items": {"type": "number", "minimum": 0, "maximum": 1},
        "description": "levels of the quantiles; left out: 0.05, 0.25, 0.5, 0.75, 0.95",
    },
    "coverage": {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": "probability with which the interval shall hold the target; left out: 0.9",
    },
    "increments": {"type": "boolean", "description": "whether increments are wanted; left out: true"},
}


def request_schema(
    columns: Columns, reads_images: bool, one_row: bool = False, limits: Sequence[str] = ()
) -> dict[str, Any]:
    """The form of a request's body, with the model's own columns, for the OpenAPI document.

    ``limits`` are those of rows that a request may have.
    """
    told = columns.to_json()
    row = {
        "type": "object",
        "additionalProperties": False,
        "required": columns.required,
        "properties": {
            column["name"]: {"type": ["number", "null"] if column["kind"] == "number" else ["string", "number", "null"]}
            for column in told
        },
        "example": {column["name"]: example_of(column) for column in told},
    }
    what = "one row" if one_row else "the rows"
    about = f"{what}, each with every column; null for what is not known: {', '.join(columns.known)}"
    rows = {"type": "array", "items": row, "minItems": 1, "description": about} | ({"maxItems": 1} if one_row else {})
    parts: dict[str, Any] = {"rows": rows} if told or not reads_images else {}
    if reads_images:
        file = {"type": "string", "format": "binary"}
        parts["images"] = {"type": "array", "items": file, "minItems": 1, "description": "files of images"}
    options = OPTIONS_SCHEMA | {name: LIMITS_SCHEMA[name] for name in limits}
    schema = {"type": "object", "required": list(parts), "properties": parts | ({} if one_row else options)}
    kind = "multipart/form-data" if reads_images else "application/json"
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
