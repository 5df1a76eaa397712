"""``diffor distill``: teach a quick student what a model answers, and save it as a model of its own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffor.cli.model_folder import check_model_output, columns_by_kind, load_model, read_notes, save_model
from diffor.cli.options import add_command, as_count, as_seed
from diffor.errors import UserError
from diffor.files import tables


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "distill",
        run,
        "teach a quick student, which answers in one pass, what a model answers",
        "diffor distill model train.csv --out student",
        "diffor predict student new.csv --out answers.csv",
    )
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit wrote, of the method diffor")
    argument("data", metavar="DATA", help="rows to learn from, as those of fit; targets are not looked at")
    argument("--out", required=True, metavar="STUDENT", help="folder of the student")
    argument("--max-steps", type=as_count, default=2_000, metavar="N", help="of training (default: 2000)")
    rows_help = "rows of DATA that are learned from at most (default: 20000)"
    argument("--max-rows", type=as_count, default=20_000, metavar="N", help=rows_help)
    argument("--seed", type=as_seed, default=0, metavar="N", help="of all that is random (default: 0)")
    argument("--quiet", action="store_true", help="show no progress")
    argument("--force", action="store_true", help="replace STUDENT if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Distill a model and say how close the student came."""
    folder, data, out = Path(arguments.model), Path(arguments.data), Path(arguments.out)
    check_model_output(out, arguments.force, None)
    if out.resolve() == folder.resolve():
        raise UserError(f"--out must be another folder than MODEL, but both are {folder}; choose another")
    names = tables.column_names(data)
    model: Any = load_model(folder)
    numbers, text = columns_by_kind(model, names, data)
    notes = read_notes(folder)
    table = tables.read_table(data, columns=[*numbers, *text], text=text)
    student = model.distill(
        table,
        max_rows=arguments.max_rows,
        max_steps=arguments.max_steps,
        random_state=arguments.seed,
        verbose=0 if arguments.quiet else 1,
    )
    save_model(student, out, notes, arguments.force)
    print(_summary(student, min(len(table), arguments.max_rows), out))


def _summary(student: Any, n_rows: int, out: Path) -> str:
    history = student.history_
    return "\n".join([
        f"student          {type(student).__name__}, one network without priors",
        f"rows             {n_rows}",
        f"steps            {history.steps} ({history.stopped}) in {history.seconds:.1f} s",
        f"from the teacher {history.best_score:.4g} (mean distance of probabilities) at step {history.best_step}",
        f"saved in         {out}",
    ])  # fmt: skip
