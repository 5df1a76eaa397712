"""``diffor bench``: compare methods on data sets, one JSON line per finished cell."""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.options import add_command, as_count, as_list, as_seconds, as_share, reader, require_folder
from diffor.errors import UserError

if TYPE_CHECKING:
    from diffor.bench.cell import Cell
    from diffor.bench.plan import Plan
    from diffor.bench.run import Line


OF_A_PLAN = ("seeds", "root", "out", "n_samples", "valid_share", "max_train_rows", "max_test_rows", "timeout_seconds")
"""Options that stand for a plan's field of the same name."""


def _seeds(text: str) -> tuple[int, ...]:
    from diffor.bench.plan import as_seeds

    seeds = [int(part) for part in text.split(",")]
    return as_seeds(seeds if len(seeds) > 1 else seeds[0])


_as_seeds = reader("be a number of seeds, or seeds as 0,1,2", _seeds, bool)


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "bench",
        run,
        "compare methods on data sets, one JSON line per finished cell; a stopped run continues",
        "diffor bench benchmarks/runs/quick.toml --out results.jsonl",
        "diffor bench --suite open --methods diffor,lightgbm-quantile --seeds 3 --out results.jsonl --jobs 2",
        "diffor bench development.toml --root DATA --retry-failed",
    )
    argument = command.add_argument
    argument("run_file", nargs="?", metavar="RUN.toml", help="run file; options go before what it says")
    argument("--size", choices=("small", "quick"), help="a smaller version that the run file describes")
    argument("--suite", type=as_list, metavar="A,B", help="suites of data sets")
    argument("--datasets", type=as_list, metavar="A,B", help="single data sets")
    argument("--methods", type=as_list, metavar="A,B", help="methods by name, all, or module:PEER")
    argument("--seeds", type=_as_seeds, metavar="N or A,B", help="number of seeds, or a list of them")
    argument("--root", metavar="DIR", help="folder of the data sets that are read from files")
    argument("--image-encoder", metavar="NAME", help="encoder whose features methods read on image data sets")
    argument("--out", metavar="FILE", help="file that lines are appended to; cells it holds are skipped")
    argument("--jobs", type=as_count, default=1, metavar="N", help="cells at a time (default: %(default)s)")
    argument("--n-samples", type=as_count, metavar="N", help="samples per row of each prediction")
    argument("--valid-share", type=as_share, metavar="S", help="share of training rows for validation")
    argument("--max-train-rows", type=as_count, metavar="N", help="training rows at most")
    argument("--max-test-rows", type=as_count, metavar="N", help="test rows at most")
    timeout_help = "seconds after which a cell has failed"
    argument("--timeout", dest="timeout_seconds", type=as_seconds, metavar="S", help=timeout_help)
    argument("--retry-failed", action="store_true", help="run failed cells again")
    argument("--list", action="store_true", help="print the cells that would run, and run none")


def run(arguments: argparse.Namespace) -> None:
    """Run the cells that the result file does not hold yet."""
    from diffor.bench.run import cells_to_do, read_lines

    require_folder("--root", arguments.root)
    plan = make_plan(arguments)
    if plan.out is None:
        raise UserError("a run must have a file for its lines, but neither --out nor the run file names one")
    out = Path(plan.out)
    if out.is_dir():
        raise UserError(f"--out must be a file, but {out} is a folder; name a file in it")
    lines, damaged = read_lines(out) if out.exists() else ([], 0)
    if damaged:
        print(f"{damaged} damaged line(s) of {out} are not used", file=sys.stderr)
    cells = plan.cells()
    left = cells_to_do(cells, lines, arguments.retry_failed)
    if arguments.list:
        print("\n".join(_name(cell) for cell in left))
        return
    print(f"{len(cells)} cells: {len(cells) - len(left)} are in {out} already, {len(left)} to do", flush=True)
    compute_features(left, plan.root)
    n_failed = run_cells(plan, left, arguments.jobs, out)
    print(f"{len(left)} cells finished, {n_failed} of them failed; lines are in {out}")


def make_plan(arguments: argparse.Namespace) -> Plan:
    """The run file's plan with what the options say in its place."""
    from diffor.bench.plan import Plan, checked, make_methods, read_run_file, with_methods

    if arguments.run_file is not None:
        plan = read_run_file(Path(arguments.run_file), arguments.size)
    elif arguments.size is not None:
        raise UserError(
            f"--size is for run files that describe one, but --size {arguments.size} comes without a run file; name "
            "one or leave it out"
        )
    else:
        plan = Plan(methods=make_methods([], {}, "the command line"))
    if arguments.methods is not None:
        plan = with_methods(plan, arguments.methods)
    if arguments.suite is not None or arguments.datasets is not None:
        plan = replace(plan, suites=tuple(arguments.suite or ()), datasets=tuple(arguments.datasets or ()))
    if arguments.image_encoder is not None:
        plan = replace(plan, images={**plan.images, "encoder": arguments.image_encoder})
    if arguments.seeds is not None:  # of every data set, also of those that have seeds of their own
        limits = plan.limits.items()
        plan = replace(plan, limits={name: {**own, "seeds": arguments.seeds} for name, own in limits})
    given = {name: value for name in OF_A_PLAN if (value := getattr(arguments, name)) is not None}
    return checked(replace(plan, **given))


def compute_features(cells: list[Cell], root: str | None) -> None:
    """Compute what pictures say before the first cell starts: it takes long, and no cell's time should pay for it."""
    from diffor.bench.image_features import UNTRAINED, with_features
    from diffor.datasets import find_dataset

    wanted = {cell.dataset: cell.images for cell in cells if cell.images is not None}
    if any(images.encoder == UNTRAINED and images.weights is None for images in wanted.values()):
        print(f"features of pictures are those of the encoder {UNTRAINED!r} with random weights, which are weak; "
              "--image-encoder names another", file=sys.stderr)  # fmt: skip
    for name, images in wanted.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # what is missing is said with the first line
                samples = find_dataset(name).read(root)
            with_features(samples, find_dataset(name), images, root)
        except Exception as error:  # noqa: PERF203  (its cells will fail with the same words, and the others go on)
            print(f"{name} has no features: {error}", file=sys.stderr)


def run_cells(
    plan: Plan,
    cells: list[Cell],
    jobs: int,
    out: Path,
    preload: Sequence[str] = (),
    mark: Callable[[Line], Line] | None = None,
) -> int:
    """Run cells with their progress shown, their lines marked by a function; returns how many failed."""
    from tqdm import tqdm

    from diffor.bench.run import append_line, run_grid
    from diffor.files.provenance import command_line

    running: dict[str, None] = {}
    n_failed, noted = 0, set[str]()
    shows_bar = sys.stderr.isatty()
    with tqdm(total=len(cells), unit="cell", disable=not shows_bar, smoothing=0.1, dynamic_ncols=True) as bar:

        def on_start(cell: Cell) -> None:
            running[_name(cell)] = None
            bar.set_postfix_str("; ".join(running))

        def on_finish(line: Line) -> None:
            nonlocal n_failed
            line = line if mark is None else mark(line)
            append_line(out, line)
            n_failed += line["status"] != "ok"
            for note in line.get("notes", []):
                if note not in noted:
                    noted.add(note)
                    bar.write(f"warning: {note}", file=sys.stderr)
            running.pop(f"{line['dataset']} {line['method']} {line['seed']}", None)
            bar.set_postfix_str("; ".join(running))
            bar.update()
            if not shows_bar or line["status"] != "ok":
                bar.write(describe(line), file=sys.stderr)

        with stopping_at_sigterm():
            run_grid(plan, cells, jobs, command_line(sys.argv[1:]), on_start, on_finish, preload)
    return n_failed


@contextmanager
def stopping_at_sigterm() -> Iterator[None]:
    """A polite request to end is an exit like any other, so that what was started is ended and cleaned up."""

    def stop(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def describe(line: Line) -> str:
    """A finished cell in one line of text."""
    name = f"{line['dataset']} {line['method']} seed {line['seed']}"
    if "smoke_test" in line:
        name = f"({line['smoke_test']}) {name}"
    if line["status"] != "ok":
        return f"{name}: failed, {line['error']}"
    scores, seconds = line["metrics"], (line["fit_seconds"], line["predict_seconds"])
    return (f"{name}: crps {scores['crps']:.4g}, mae {scores['mae']:.4g}, coverage {scores['coverage_90']:.3f}, "
            f"fit {seconds[0]:.1f} s, predict {seconds[1]:.2f} s")  # fmt: skip


def _name(cell: Cell) -> str:
    return f"{cell.dataset} {cell.method} {cell.seed}"
