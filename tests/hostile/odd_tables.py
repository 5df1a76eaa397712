"""Random tables that know what is wrong with them: every kind of column, name, target, weight and group.

A case is a function of its seed. Its ``faults`` say what must be refused; one without faults must be answered.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from diffor.methods import METHODS

Draw = np.random.Generator
NAMES = sorted(METHODS)


@dataclass
class Case:
    """A table with its targets, the rows to ask about, and the model that is to learn from it."""

    seed: int
    X: Any
    y: Any
    new: Any
    task: str
    arguments: dict[str, Any]
    weights: Any = None
    groups: Any = None
    method: str = "diffor"
    faults: list[str] = field(default_factory=list)
    """What must be refused."""
    doubts: list[str] = field(default_factory=list)
    """What may be refused or answered."""

    def __str__(self) -> str:
        kinds = [str(kind) for kind in self.X.dtypes] if isinstance(self.X, pd.DataFrame) else type(self.X).__name__
        return (
            f"seed={self.seed} {self.method} {self.task} {len(self.y)} rows {kinds} {self.arguments} "
            f"faults={self.faults} doubts={self.doubts}"
        )


# --- columns: n values of a kind ---


def _dates(draw: Draw, n: int) -> pd.Series[Any]:
    return pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(-(10**5), 10**5, n), unit="h"))


def _words(draw: Draw, n: int) -> np.ndarray[Any, Any]:
    return draw.choice(["", "a", "b b", "Ünï", "nan", "None", "3", "3.0", "a\x00b", "x" * 500, "'", '"', "-inf"], n)


COLUMNS: dict[str, Callable[[Draw, int], Any]] = {
    "normal": lambda draw, n: draw.normal(size=n),
    "single": lambda draw, n: draw.normal(size=n).astype(np.float32),
    "half": lambda draw, n: draw.normal(size=n).astype(np.float16),
    "whole": lambda draw, n: draw.integers(-5, 5, n),
    "bytes-size": lambda draw, n: draw.integers(0, 255, n).astype(np.uint8),
    "unsigned": lambda draw, n: draw.integers(2**63, 2**64 - 1, n, dtype=np.uint64),
    "identifiers": lambda draw, n: draw.integers(10**15, 10**18, n),
    "boolean": lambda draw, n: draw.random(n) < 0.5,
    "constant": lambda draw, n: np.full(n, draw.choice([0.0, -0.0, 7.5, 1e-300, 1e299])),
    "nearly constant": lambda draw, n: np.where(np.arange(n) == 0, 1.0, 0.0),
    "huge": lambda draw, n: draw.normal(size=n) * 10.0 ** draw.integers(20, 298),
    "huge range": lambda draw, n: draw.choice([-1, 1], n) * 10.0 ** draw.integers(-300, 300, n),
    "denormal": lambda draw, n: draw.random(n) * 1e-310,
    "offset": lambda draw, n: 1e15 + draw.integers(0, 5, n),
    "words": _words,
    "string": lambda draw, n: pd.Series(_words(draw, n), dtype="string"),
    "category": lambda draw, n: pd.Categorical(draw.choice(list("xyz"), n), categories=list("xyzw")),
    "ordered": lambda draw, n: pd.Categorical(draw.choice([1, 2, 3], n), categories=[3, 1, 2], ordered=True),
    "cut": lambda draw, n: pd.cut(draw.random(n), [-1, 0.2, 0.6, 2]),
    "levels": lambda draw, n: np.array([f"id{i}" for i in draw.integers(0, 10**6, n)], dtype=object),
    "times": _dates,
    "times of days": lambda draw, n: _dates(draw, n).dt.normalize().astype("datetime64[s]"),
    "times with zone": lambda draw, n: _dates(draw, n).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
    "dates of Python": lambda draw, n: np.array([one.date() for one in _dates(draw, n)], dtype=object),
    "clock": lambda draw, n: np.array([datetime.time(hour) for hour in draw.integers(0, 24, n)], dtype=object),
    "periods": lambda draw, n: _dates(draw, n).dt.to_period("M"),
    "durations": lambda draw, n: pd.Series(pd.to_timedelta(draw.integers(0, 10**6, n), unit="s")),
    "nullable whole": lambda draw, n: pd.array(draw.integers(0, 9, n), dtype="Int64"),
    "nullable number": lambda draw, n: pd.array(draw.random(n), dtype="Float32"),
    "nullable boolean": lambda draw, n: pd.array(draw.random(n) < 0.5, dtype="boolean"),
    "arrow number": lambda draw, n: pd.Series(draw.random(n), dtype="double[pyarrow]"),
    "arrow text": lambda draw, n: pd.Series(draw.choice(list("pqr"), n), dtype="string[pyarrow]"),
    "arrow dates": lambda draw, n: pd.Series(
        [one.date() for one in _dates(draw, n)], dtype="date32[pyarrow]"
    ),
    "sparse": lambda draw, n: pd.arrays.SparseArray(np.where(draw.random(n) < 0.8, 0.0, draw.random(n))),
    "decimals": lambda draw, n: np.array([decimal.Decimal(int(k)) / 8 for k in draw.integers(0, 99, n)], dtype=object),
    "large integers": lambda draw, n: np.array([int(k) * 10**30 for k in draw.integers(0, 9, n)], dtype=object),
    "mixed": lambda draw, n: np.array([[1, 2.5, 7, "t", "u"][k] for k in draw.integers(0, 5, n)], dtype=object),
    "all missing": lambda draw, n: np.full(n, np.nan),
    "all None": lambda draw, n: np.full(n, None, dtype=object),
}  # fmt: skip
BAD_COLUMNS: dict[str, Callable[[Draw, int], Any]] = {
    "infinity": lambda draw, n: np.where(np.arange(n) == n // 2, np.inf, draw.normal(size=n)),
    "beyond": lambda draw, n: np.where(np.arange(n) == n // 2, 1.7e308, draw.normal(size=n)),
    "complex": lambda draw, n: draw.normal(size=n) + 1j,
    "lists": lambda draw, n: pd.Series([[1, 2]] * n),
    "objects": lambda draw, n: pd.Series([object()] * n),
    "endless integers": lambda draw, n: np.array([10**400] * n, dtype=object),
}
UNGAPPED = ("half", "whole", "bytes-size", "unsigned", "identifiers", "boolean", "sparse", "constant")
"""Kinds that cannot, or need not, have gaps."""


def _column(draw: Draw, kind: str, n: int) -> pd.Series[Any]:
    made = {**COLUMNS, **BAD_COLUMNS}[kind](draw, n)
    values = pd.Series(made, dtype=object if getattr(made, "dtype", None) == np.dtype(object) else None).reset_index(
        drop=True
    )
    if kind not in UNGAPPED and kind not in BAD_COLUMNS and draw.random() < 0.4:
        values[draw.random(n) < draw.choice([0.1, 0.5, 0.95])] = None
    return values


GOOD_NAMES = ["a", "B b", "", "ü", "target", "0", "col\n", "x" * 300, "<b>", 'q"', "None", "nan", "a,b", "__index__"]
ODD_NAMES: list[list[Any]] = [
    [10, 20, 30, 7, 5, 3], [3, 2, 1, 0, 5, 4], [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], [True, False, 2, 3, 4, 5],
    ["a", 1, 2.5, "b", 3, "c"],
]  # fmt: skip
BAD_NAMES: list[list[Any]] = [
    ["a", "a", "b", "c", "d", "e"], [float("nan"), "a", "b", "c", "d", "e"], [None, "a", "b", "c", "d", "e"],
    [pd.Timestamp("2020-01-01"), "a", "b", "c", "d", "e"], [pd.NaT, "a", "b", "c", "d", "e"],
    [float("inf"), "a", "b", "c", "d", "e"], [b"a", "b", "c", "d", "e", "f"],
]  # fmt: skip


def _table(draw: Draw, n: int, faults: list[str], doubts: list[str]) -> pd.DataFrame:
    kinds = draw.choice(list(COLUMNS), int(draw.integers(1, 6))).tolist()
    if draw.random() < 0.06:
        kinds[0] = str(draw.choice(list(BAD_COLUMNS)))
        (doubts if kinds[0] == "beyond" else faults).append(f"column of {kinds[0]}")
    table = pd.concat([_column(draw, kind, n) for kind in kinds], axis=1)
    chosen, p = len(kinds), draw.random()
    if p < 0.75:
        table.columns = pd.Index(draw.permutation(np.array(GOOD_NAMES, dtype=object))[:chosen], dtype=object)
    elif p < 0.9:
        table.columns = pd.Index(ODD_NAMES[draw.integers(len(ODD_NAMES))][:chosen], dtype=object)
    elif p < 0.95:
        names = BAD_NAMES[draw.integers(len(BAD_NAMES))][:chosen]
        table.columns = pd.Index(names, dtype=object)
        faults += [f"names {names}"] if names != ["a"] else []
    else:
        table.columns = pd.MultiIndex.from_tuples([("group", place) for place in range(chosen)])
        faults.append("names of several levels")
    return table


# --- targets, weights, groups ---

VALUES: dict[str, Callable[[Draw, int], Any]] = {
    "normal": lambda draw, n: draw.normal(size=n),
    "counts": lambda draw, n: draw.poisson(3, n),
    "constant": lambda draw, n: np.full(n, 3.25),
    "two values": lambda draw, n: draw.choice([0, 1], n),
    "with zeros": lambda draw, n: np.where(draw.random(n) < 0.7, 0, draw.lognormal(size=n)),
    "long tail": lambda draw, n: draw.lognormal(0, 3, n),
    "huge": lambda draw, n: draw.random(n) * 10.0 ** draw.integers(30, 149),
    "tiny": lambda draw, n: draw.random(n) * 10.0 ** -draw.integers(30, 140).astype(float),
    "offset": lambda draw, n: 1e12 + draw.random(n),
    "outlier": lambda draw, n: np.where(np.arange(n) == 0, 1e9, draw.random(n)),
    "booleans": lambda draw, n: draw.random(n) < 0.5,
    "nullable": lambda draw, n: pd.Series(draw.integers(0, 50, n), dtype="Int64"),
    "list": lambda draw, n: draw.random(n).tolist(),
    "single": lambda draw, n: draw.random(n).astype(np.float32),
    "decimals": lambda draw, n: [decimal.Decimal(int(k)) / 4 for k in draw.integers(0, 99, n)],
}
BAD_VALUES: dict[str, Callable[[Draw, int], Any]] = {
    "missing": lambda draw, n: np.where(np.arange(n) == n // 2, np.nan, draw.random(n)),
    "infinite": lambda draw, n: np.where(np.arange(n) == n // 2, -np.inf, draw.random(n)),
    "too far": lambda draw, n: np.where(np.arange(n) == n // 2, -1.7e308, draw.random(n)),
    "text": lambda draw, n: [str(k) for k in draw.integers(0, 9, n)],
    "dates": lambda draw, n: _dates(draw, n),
    "durations": lambda draw, n: draw.integers(0, 9, n).astype("timedelta64[s]"),
    "endless": lambda draw, n: [10**400] * n,
    "complex": lambda draw, n: draw.random(n) * 1j,
    "lists": lambda draw, n: [[1, 2]] * n,
    "too few": lambda draw, n: draw.random(n + 1),
    "nothing": lambda draw, n: None,
}
GRADES: dict[str, Callable[[Draw, int], Any]] = {
    "few": lambda draw, n: draw.integers(0, 4, n),
    "two": lambda draw, n: draw.integers(0, 2, n),
    "one": lambda draw, n: np.full(n, "only"),
    "text": lambda draw, n: draw.choice(["low", "mid", "high"], n),
    "listed": lambda draw, n: draw.choice(["low", "mid", "high"], n),
    "negative": lambda draw, n: draw.choice([-3, 0, 12], n),
    "decimal": lambda draw, n: draw.choice([0.5, 1.0, 2.5], n),
    "booleans": lambda draw, n: draw.random(n) < 0.5,
    "ordered": lambda draw, n: pd.Series(pd.Categorical(draw.choice(list("ab"), n), list("cba"), ordered=True)),
    "string": lambda draw, n: pd.Series(draw.choice(["p", "q", "ü\x00"], n), dtype="string"),
    "nullable": lambda draw, n: pd.Series(draw.integers(0, 3, n), dtype="Int64"),
}
BAD_GRADES: dict[str, Callable[[Draw, int], Any]] = {
    "missing": lambda draw, n: np.array([None, *draw.choice(["a", "b"], n - 1)], dtype=object),
    "dates": lambda draw, n: _dates(draw, n).dt.normalize(),
    "mixed": lambda draw, n: np.array([1, *["a"] * (n - 1)], dtype=object),
    "lists": lambda draw, n: pd.Series([[1], [2]] * n)[:n],
    "intervals": lambda draw, n: pd.cut(draw.random(n), 3),
    "too few": lambda draw, n: draw.integers(0, 3, n + 1),
    "nothing": lambda draw, n: None,
}
ALONE = {"mixed", "missing"}  # these need two rows to be wrong
WEIGHTS: dict[str, Callable[[Draw, int], Any]] = {
    "random": lambda draw, n: draw.random(n) + 0.01,
    "zeros": lambda draw, n: np.where(np.arange(n) == 0, 1, draw.integers(0, 3, n)),
    "huge": lambda draw, n: draw.choice([1e308, 5e307], n),
    "far apart": lambda draw, n: 10.0 ** draw.integers(-300, 300, n),
    "denormal": lambda draw, n: np.full(n, 5e-324),
    "booleans": lambda draw, n: np.arange(n) % 3 != 1,
    "list": lambda draw, n: [1] * n,
    "one for all": lambda draw, n: 2.5,
}
BAD_WEIGHTS: dict[str, Callable[[Draw, int], Any]] = {
    "negative": lambda draw, n: np.where(np.arange(n) == 0, -1.0, 1.0),
    "missing": lambda draw, n: np.where(np.arange(n) == 0, np.nan, 1.0),
    "infinite": lambda draw, n: np.where(np.arange(n) == 0, np.inf, 1.0),
    "all zero": lambda draw, n: np.zeros(n),
    "text": lambda draw, n: ["heavy"] * n,
    "too few": lambda draw, n: np.ones(n + 1),
    "a table": lambda draw, n: np.ones((n, 2)),
}
GROUPS: dict[str, Callable[[Draw, int], Any]] = {
    "numbers": lambda draw, n: draw.integers(0, max(n // 3, 1), n),
    "text": lambda draw, n: draw.choice(["a", "b", "c"], n),
    "one": lambda draw, n: np.zeros(n),
    "own": lambda draw, n: np.arange(n),
    "gaps": lambda draw, n: np.where(draw.random(n) < 0.3, np.nan, draw.integers(0, 5, n)),
}


def _pick(
    draw: Draw, good: dict[str, Any], bad: dict[str, Any], n: int, faults: list[str], what: str
) -> tuple[str, Any]:
    wrong = draw.random() < 0.06
    kind = str(draw.choice(list(bad if wrong else good)))
    if wrong and not (n == 1 and kind in ALONE):
        faults.append(f"{what}: {kind}")
    return kind, (bad if wrong else good)[kind](draw, n)


# --- a case ---


def make_case(seed: int, method: str | None = None) -> Case:
    """The case of a seed, of a method of the table or, for half of the seeds, of the core."""
    draw = np.random.default_rng(seed)
    faults: list[str] = []
    doubts: list[str] = []
    n = int(draw.choice([1, 2, 3, 7, 12, 30, 60, 90]))
    if method is None:
        method = "diffor" if draw.random() < 0.5 else str(draw.choice(NAMES))
    task = str(draw.choice([task for task in METHODS[method].tasks if task in ("value", "grades")]))
    X = _table(draw, n, faults, doubts)
    arguments: dict[str, Any] = {"max_steps": 3, "verbose": 0, "random_state": int(draw.integers(100))}
    if task == "value":
        kind, y = _pick(draw, VALUES, BAD_VALUES, n, faults, "values")
        if METHODS[method].requires or METHODS[method].family in ("watch time", "lifetime value"):
            y = np.abs(np.asarray(draw.normal(size=n)))
            faults[:] = [fault for fault in faults if not fault.startswith("values")]
        elif kind in VALUES and kind not in ("huge", "decimals") and draw.random() < 0.3:
            _add_bounds(draw, y, arguments, faults)
    else:
        kind, y = _pick(draw, GRADES, BAD_GRADES, n, faults, "grades")
        if kind == "decimal":  # grades only where all happen to be whole
            doubts.append("grades that are no whole numbers")
        if method != "diffor" and (n < 5 or kind == "one"):
            doubts.append("one grade, which a method may have no use for")
        if kind == "listed":
            arguments["grades"] = ["low", "mid", "high", "never"]
    if method != "diffor":
        arguments["n_samples"] = 8  # methods that draw answer slowly
    if METHODS[method].has_chain and "n_steps" in inspect.signature(METHODS[method]).parameters:
        arguments["method_settings"] = {"n_steps": 8}
    if method == "diffor":
        chosen = ((), ("trees",), ("process",), ("trees", "process"))[draw.choice(4, p=[0.6, 0.2, 0.1, 0.1])]
        arguments |= {"prior": chosen or None, "preset": str(draw.choice(["fast", "balanced"]))}
        arguments["keep_out_of_fold"] = bool(draw.random() < 0.3)
    case = Case(seed, X, y, None, task, arguments, method=method, faults=faults, doubts=doubts)
    if draw.random() < 0.4 and not faults:  # a row of weight 0 would be absent with all that is wrong with it
        case.weights = _pick(draw, WEIGHTS, BAD_WEIGHTS, n, faults, "weights")[1]
    if method == "diffor" and draw.random() < 0.2:
        case.groups = GROUPS[str(draw.choice(list(GROUPS)))](draw, n)
    case.new = _new_rows(draw, _present(X, case.weights))
    if draw.random() < 0.1:
        case.X, case.new = _without_names(draw, case, doubts)
    return case


def _add_bounds(draw: Draw, y: Any, arguments: dict[str, Any], faults: list[str]) -> None:
    values = np.asarray(y, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    if draw.random() < 0.15 and low < high:
        arguments["bounds"] = (low, (low + high) / 2)
        faults.append("targets outside the bounds")
    else:
        reach = max(abs(low), abs(high), 1e-100)
        arguments["bounds"] = (low - reach, high + reach)


def _present(X: pd.DataFrame, weights: Any) -> pd.DataFrame:
    """The rows that have a weight: a column of the others may be of another kind."""
    if not isinstance(weights, np.ndarray) or weights.shape != (len(X),) or not (weights > 0).any():
        return X
    return X[weights >= 1e-30 * np.nanmax(weights)]


def _new_rows(draw: Draw, X: pd.DataFrame) -> pd.DataFrame:
    """Rows to ask about: those of training in another order, some twice, with gaps where their columns take them."""
    new = X.iloc[draw.integers(0, len(X), int(draw.integers(1, 20)))].reset_index(drop=True)
    for place in range(new.shape[1]):
        column = new.iloc[:, place]
        if draw.random() < 0.2 and column.dtype == np.float64 and len(new) > 1:
            values = column.to_numpy(copy=True)
            values[0] = np.nan
            new.isetitem(place, values)
    return new


def _without_names(draw: Draw, case: Case, doubts: list[str]) -> tuple[Any, Any]:
    """The same as arrays or lists, whose columns have places only."""
    case.faults[:] = [fault for fault in case.faults if not fault.startswith("names")]
    doubts.append("no names")
    arrays = case.X.to_numpy(dtype=object), case.new.to_numpy(dtype=object)
    return arrays if draw.random() < 0.5 else (arrays[0].tolist(), arrays[1].tolist())
