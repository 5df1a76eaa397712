"""``diffor diagnose``: measure what the paper proves on a fitted model."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import columns_by_kind, load_model, remembered_target
from diffor.cli.options import add_command, require_columns
from diffor.cli.target_column import true_targets
from diffor.errors import UserError
from diffor.files import tables

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

MAX_ROWS = 2000
"""Rows that are measured: more take longer and hardly change a figure."""
SEED = 0


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "diagnose",
        run,
        "measure what the paper proves on a fitted model",
        "diffor diagnose model test.csv",
        "diffor diagnose model test.csv --out theory.html",
    )
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit wrote, of the preset paper")
    argument("data", metavar="DATA", help="rows with their targets that the model was not trained on")
    argument("--target", metavar="COL", help="column of the true values (default: as in fit)")
    argument("--out", metavar="PAGE.html", help="page with figures to write")
    argument("--json", action="store_true", help="print one JSON object")
    argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Print the numbers of each measurement, and write the page that was asked for."""
    from diffor.reports.plots import require_matplotlib

    data, folder = Path(arguments.data), Path(arguments.model)
    if arguments.out is not None:
        tables.check_output(Path(arguments.out), arguments.force)
        require_matplotlib()
    names = tables.column_names(data)
    model: Any = load_model(folder)
    from diffor.estimators.chain import has_increments

    if not has_increments(model):
        raise UserError(
            f"{folder} must be a model of the paper's chain, but its method is {model.settings_.method!r}, of which "
            "the paper proves nothing; fit one with --preset paper"
        )
    target = arguments.target or remembered_target(folder)
    require_columns([target], names, data)
    with tables.unchanged(data):
        truth = true_targets(model, target, data)
        chosen = choose_rows(len(truth))
        rows = _read_rows(data, columns_by_kind(model, names, data), chosen)
    from diffor.paper.theory.model_diagnosis import diagnose_model, diagnosis_sections
    from diffor.reports.html import as_text, html_page, write_page

    diagnosis = diagnose_model(model, rows, truth[chosen])
    n_members, all_rows = len(model.ensemble_.models), len(truth)
    sample = (
        f"all {all_rows} rows" if len(chosen) == all_rows else f"{len(chosen)} random rows of {all_rows} (seed {SEED})"
    )
    member = "" if n_members == 1 else f" Member 1 of {n_members} was measured, alone and uncalibrated."
    about = f"The paper's theory, measured on {folder} with {sample}, target {target}.{member}"
    if arguments.out is not None:
        sections = diagnosis_sections(diagnosis, about, model.history_)
        write_page(arguments.out, html_page("DiffoR: the theory, measured", sections))
        print(f"the page is {arguments.out}", file=sys.stderr)
    if arguments.json:
        facts = {"model": type(model).__name__, "target": target, "rows_in_file": len(truth)}
        print(json.dumps({**facts, **diagnosis}, allow_nan=False))
    else:
        print(as_text(diagnosis_sections(diagnosis, about, has_figures=False)))


def choose_rows(count: int, limit: int = MAX_ROWS) -> NDArray[Any]:
    """Rows to measure: all, or a random part that is always the same, in their order. **Shape:** -> ``(n,)``.

    >>> choose_rows(3).tolist(), len(choose_rows(5000))
    ([0, 1, 2], 2000)
    """
    import numpy as np

    return np.sort(np.random.default_rng(SEED).permutation(count)[:limit])


def _read_rows(data: Path, columns: tuple[list[str], list[str]], chosen: NDArray[Any]) -> pd.DataFrame:
    """The chosen rows of a file, which is read in pieces."""
    import pandas as pd

    parts = []
    for chunk in tables.read_chunks(data, *columns):
        inside = chosen[(chosen >= chunk.first) & (chosen < chunk.first + len(chunk))]
        parts.append(chunk.table.iloc[inside - chunk.first])
    table: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return table
