"""``diffor reproduce``: the paper's experiments, each with its lines, its numbers and its page."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.bench import compute_features, run_cells
from diffor.cli.options import add_command, as_count, as_list, as_seed, require_folder
from diffor.errors import UserError
from diffor.files import tables

if TYPE_CHECKING:
    from diffor.bench.leaderboard import Cells
    from diffor.bench.plan import Plan
    from diffor.paper.experiments.contrasts import Findings
    from diffor.paper.experiments.grids import Grid

NAMES = ("tables", "ablation", "heads", "latent", "times", "paradigms")
SIZES = ("paper", "small", "quick")
PRELOADED = ("diffor.estimators.api", "diffor.bench.cell", "diffor.bench.peers.methods")
"""What all cells import: every method of these experiments is ours."""
QUICK = SIZES[2]
OPTIONS = ("methods", "seeds", "epochs", "encoder", "weights")
"""What changes the run files of grids."""


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "reproduce",
        run,
        "run an experiment of the paper and write what it finds: lines, numbers and a page",
        "diffor reproduce ablation --quick",
        "diffor reproduce tables --root DATA --out results --jobs 2",
        "diffor reproduce times --size small --root DATA",
        "diffor reproduce tables --size paper --root DATA --methods diffor-paper,method:or-cnn --weights resnet50.pth",
    )
    argument = command.add_argument
    argument("name", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    argument("--root", metavar="DIR", help="folder of the data sets that are read from files")
    argument("--out", default="reproduction", metavar="DIR", help="folder to write (default: %(default)s)")
    size = command.add_mutually_exclusive_group()
    sizes = (
        "paper: its settings, epochs and networks, for a GPU; small: hours on two cores; quick: minutes, which shows "
        "only that everything runs (default: %(default)s)"
    )
    size.add_argument("--size", choices=SIZES, default="paper", help=sizes)
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="the same as --size quick")
    argument("--jobs", type=as_count, default=1, metavar="N", help="cells at a time (default: %(default)s)")
    argument("--methods", type=as_list, metavar="A,B", help="methods to run (default: all)")
    seeds = "seeds of sets that are divided by chance, in place of the run files'"
    argument("--seeds", type=as_count, metavar="N", help=seeds)
    argument("--epochs", type=as_count, metavar="N", help="epochs in place of the paper's 50 and 100")
    argument("--encoder", metavar="NAME", help="network of images in place of resnet50, from random weights")
    argument("--weights", metavar="FILE", help="first weights of the network of images")
    seed = "random seed of latent and paradigms; run files have their own (default: %(default)s)"
    argument("--seed", type=as_seed, default=0, metavar="N", help=seed)
    argument("--force", action="store_true", help="replace page and numbers if they exist")


def run(arguments: argparse.Namespace) -> None:
    """Run what is left of the experiment, print its findings and write them."""
    from diffor.reports.plots import require_matplotlib

    require_folder("--root", arguments.root)
    folder, size = Path(arguments.out), None if arguments.size == "paper" else arguments.size
    stem = arguments.name if size is None else f"{arguments.name}-{size}"
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out must be a folder, but {folder} is a file; name another")
    if folder.is_dir():
        for ending in (".html", ".json"):
            tables.check_output(folder / f"{stem}{ending}", arguments.force)
    require_matplotlib()
    findings = _findings(arguments, size, folder / f"{stem}.jsonl")
    if size == QUICK:
        from diffor.paper.experiments.smoke import smoke_test

        findings = smoke_test(findings)
    _write(findings, folder, stem, arguments.name)
    from diffor.reports.html import as_text

    print(as_text(findings.sections))
    print(f"page and numbers are {folder / stem}.html and .json", file=sys.stderr)


def _findings(arguments: argparse.Namespace, size: str | None, lines: Path) -> Findings:
    from diffor.paper.experiments.grids import GRIDS

    beside = [name for name in OPTIONS if getattr(arguments, name) is not None]
    if beside and arguments.name not in GRIDS:
        raise UserError(f"--{beside[0]} is for {', '.join(GRIDS)}, but got it with {arguments.name}; leave it out")
    if arguments.name in GRIDS:
        return _run_grid(GRIDS[arguments.name], arguments, size, lines)
    if arguments.name == "paradigms":
        from diffor.paper.experiments.paradigms import run_paradigms

        log = partial(print, file=sys.stderr, flush=True)
        return run_paradigms(size, arguments.seed, log, lines=lines)
    from diffor.datasets.state import NOT_FOUND, find_state
    from diffor.paper.experiments.latent import DATASETS_TRIED, run_latent

    root = None if arguments.root is None else Path(arguments.root)
    tried = DATASETS_TRIED[-1:] if size == "quick" else DATASETS_TRIED
    dataset = next(name for name in tried if find_state(name, root) != NOT_FOUND)
    print(f"training on {dataset}, and once more without training", file=sys.stderr, flush=True)
    return run_latent(dataset, arguments.root, size, arguments.seed)


def _run_grid(grid: Grid, arguments: argparse.Namespace, size: str | None, out: Path) -> Findings:
    """Run the cells that are not among the lines yet, and read them all."""
    from diffor.bench.leaderboard import latest_cells
    from diffor.bench.run import cells_to_do, read_lines
    from diffor.paper.experiments.options import Options
    from diffor.paper.experiments.smoke import marked

    plans = [found for plan in grid.plans(size) if (found := _with_found(plan, arguments.root)) is not None]
    options = Options(*(getattr(arguments, name) for name in OPTIONS))
    if plans:
        plans = options.apply(plans, arguments.root)
    if not plans:
        below = f" below {arguments.root}" if arguments.root else ", and --root is not given"
        raise UserError(
            f"{grid.name} needs at least one of its data sets, but none is found{below}; see diffor datasets"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for plan in plans:
        cells = plan.cells()
        wanted |= {(cell.dataset, cell.method, cell.seed) for cell in cells}
        known, _ = read_lines(out) if out.exists() else ([], 0)
        left = cells_to_do(cells, known, retry_failed=False)
        done = f"{len(cells)} cells: {len(cells) - len(left)} are in {out} already, {len(left)} to do"
        print(done, file=sys.stderr, flush=True)
        compute_features(left, plan.root)
        run_cells(plan, left, arguments.jobs, out, PRELOADED, marked if size == QUICK else None)
    lines, _ = read_lines(out)
    return _read(grid, {place: line for place, line in latest_cells(lines).items() if place in wanted})


def _read(grid: Grid, cells: Cells) -> Findings:
    failed = [line for line in cells.values() if line["status"] != "ok"]
    if failed:
        print(f"{len(failed)} of {len(cells)} cells failed, the first with: {failed[0]['error']}", file=sys.stderr)
    if len(failed) == len(cells):
        raise UserError(
            f"{grid.name} needs at least one cell that ends well, but all {len(cells)} failed; the lines say why"
        )
    return grid.read({place: line for place, line in cells.items() if line["status"] == "ok"})


def _with_found(plan: Plan, root: str | None) -> Plan | None:
    """The plan with those of its data sets that are there; None where none is."""
    from diffor.datasets.state import NOT_FOUND, find_state

    folder = None if root is None else Path(root)
    found = [name for name in plan.dataset_names() if find_state(name, folder) != NOT_FOUND]
    absent = [name for name in plan.dataset_names() if name not in found]
    if absent:
        print(f"not found, and left out: {', '.join(absent)}", file=sys.stderr, flush=True)
    return replace(plan, suites=(), datasets=tuple(found), root=root) if found else None


def _write(findings: Findings, folder: Path, stem: str, name: str) -> None:
    from diffor.files.atomic import write_atomically
    from diffor.files.provenance import origin
    from diffor.reports.html import html_page, write_page

    folder.mkdir(parents=True, exist_ok=True)
    title = f"DiffoR: {stem}" + (f" ({findings.numbers['smoke_test']})" if "smoke_test" in findings.numbers else "")
    content = {"experiment": name, **origin("diffor", sys.argv[1:]), **findings.numbers}
    write_atomically(folder / f"{stem}.json", json.dumps(content, indent=1, allow_nan=False).encode())
    write_page(folder / f"{stem}.html", html_page(title, findings.sections))
