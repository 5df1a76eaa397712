"""Expert judgements and quality grades: the small tables that ordinal regression is usually compared on.

``<root>/ordinal/<name>.csv`` comes in two layouts. The judgements (era, esl, lev, swd) begin with a line of the number
of rows, the number of inputs and the names of the grades, and end each line with the grade's index from 0. The others
(winequality-white, skill) begin with a header and have the grade, counted from 1, in the first column ``response``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.open.packages import GRADE_METRICS
from diffor.datasets.readers.data_files import CURE, as_numbers, data_file, read_cells, with_header
from diffor.datasets.samples import Dataset, Samples, split_read
from diffor.errors import UserError

JUDGEMENTS = {
    "era": (9, "acceptability of job applicants in nine grades, 1,000 judgements"),
    "esl": (9, "fitness of applicants for industrial jobs in nine grades, 488 profiles"),
    "lev": (5, "evaluation of lecturers in five grades, 1,000 judgements"),
    "swd": (4, "risk to children in their families in four grades, 1,000 judgements"),
}
RESPONSES = {
    "winequality-white": (7, "quality of white wine in seven grades, 3,961 bottles"),
    "skill": (7, "league of StarCraft players in seven grades, 3,337 players"),
}


def read_judgements(root: str | Path | None, name: str) -> Samples:
    """Read a table whose first line counts rows and inputs and whose last column is the grade's index."""
    path = data_file(root, name, f"ordinal/{name}.csv")
    (n_rows, n_inputs, *_), *rows = read_cells(path)
    if (n_rows, n_inputs) != (str(len(rows)), str(len(rows[0]) - 1)):
        raise UserError(
            f"{path} must begin with its {len(rows)} rows and {len(rows[0]) - 1} inputs, "
            f"but got {n_rows}, {n_inputs}; {CURE}"
        )
    names = [*(f"x{column}" for column in range(len(rows[0]) - 1)), "grade"]
    table = as_numbers(pd.DataFrame(rows, columns=names, index=range(2, len(rows) + 2)), path)
    y = _grade_codes(table.pop("grade"), path, first=0, n_grades=JUDGEMENTS[name][0])
    return Samples(table, y)


def read_responses(root: str | Path | None, name: str) -> Samples:
    """Read a table with a header whose column ``response`` counts the grades from 1; ``?`` is a missing input."""
    path = data_file(root, name, f"ordinal/{name}.csv")
    cells = with_header(path, ("response",))
    y = _grade_codes(as_numbers(cells[["response"]], path)["response"], path, first=1, n_grades=RESPONSES[name][0])
    return Samples(as_numbers(cells.drop(columns="response"), path, may_miss=True), y)


def _grade_codes(grades: pd.Series, path: Path, first: int, n_grades: int) -> NDArray[np.float64]:
    codes = grades.to_numpy(dtype=np.float64) - first
    bad = (codes != np.round(codes)) | (codes < 0) | (codes >= n_grades)
    if bad.any():
        line = int(np.argmax(bad)) + 2
        raise UserError(
            f"{path} must hold grades {first} to {first + n_grades - 1}, "
            f"but line {line} has {codes[line - 2] + first:g}; {CURE}"
        )
    return codes


ORDINAL = tuple(
    Dataset(
        name=name,
        description=description,
        source=source,
        metrics=GRADE_METRICS,
        read=partial(read, name=name),
        split=partial(split_read, read=partial(read, name=name)),
        n_grades=n_grades,
    )
    for tables, read, source in (
        (JUDGEMENTS, read_judgements, "public collections of ordinal regression tables"),
        (RESPONSES, read_responses, "UCI repository (CC BY 4.0)"),
    )
    for name, (n_grades, description) in tables.items()
)
