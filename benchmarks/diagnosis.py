"""The paper's theory, measured on models of development tables: the figures of ``docs/reproduction.md``.

Every model learns from the first split of its table and is measured on that split's test rows, by what
``diffor diagnose`` measures of a model folder and a file. The cosines of gradients are logged while it learns. The
model ``paper`` is that of the ablation in its size ``small``.

    python benchmarks/diagnosis.py --root DATA                      all, written to benchmarks/results/diagnosis_*.json
    python benchmarks/diagnosis.py --root DATA --only kin8nm_paper  one of them
    python benchmarks/diagnosis.py --root DATA --pages              with a page beside each, as diffor diagnose writes
    python benchmarks/diagnosis.py --quick --out FOLDER             a smoke check, on a table that comes with a package
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffor import DiffoRRegressor
from diffor.datasets import DATASETS
from diffor.files.atomic import write_atomically
from diffor.files.provenance import origin
from diffor.paper.theory.model_diagnosis import diagnose_model, diagnosis_sections
from diffor.reports.html import as_text, html_page, write_page

RESULTS = Path(__file__).resolve().parent / "results"
MODELS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper", "batch_size": 128, "max_steps": 1000, "learning_rate": 1e-3,
              "method_settings": {"objective": "one_call", "width": 64}},
}  # fmt: skip
QUICK = {"max_steps": 10, "evaluate_every": 5}
TABLES = ("vlengagement", "kin8nm")
MAX_TRAIN_ROWS = 5000


def diagnose_table(name: str, root: str | None, settings: dict[str, Any], out: Path, has_page: bool) -> str:
    """Train a model on a table, measure it, write the numbers, also a page if asked for, and give them as text."""
    source = DATASETS[name]
    samples, (train, test) = source.read(root), source.split(root, 0)
    train = train[:MAX_TRAIN_ROWS]
    model = DiffoRRegressor(**settings, bounds=source.bounds, diagnose=True, random_state=0, verbose=0)
    model.fit(samples.x.iloc[train], samples.y[train])
    found = diagnose_model(model, samples.x.iloc[test], samples.y[test])
    content = {
        **origin("python benchmarks/diagnosis.py", sys.argv[1:]),
        "dataset": name,
        "settings": settings,
        "n_train": len(train),
        "n_increments": int(model.ensemble_.models[0].method.n_increments),
        "training": model.history_.diagnostics,
        **found,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, json.dumps(content, indent=1, allow_nan=False).encode())
    about = f"The paper's theory, measured on {name}: {len(train)} rows to learn from, {len(test)} to measure on."
    if has_page:
        sections = diagnosis_sections(found, about, model.history_)
        write_page(out.with_suffix(".html"), html_page(f"DiffoR: the theory on {name}", sections))
    return as_text(diagnosis_sections(found, about, has_figures=False))


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of the data sets")
    parser.add_argument("--only", metavar="TABLE_MODEL", help="one of them, as vlengagement_paper")
    parser.add_argument("--quick", action="store_true", help="a smoke check; needs --out")
    parser.add_argument("--pages", action="store_true", help="write pages, too")
    parser.add_argument("--out", type=Path, help="folder to write (default: benchmarks/results)")
    arguments = parser.parse_args(words)
    if arguments.quick and arguments.out is None:
        parser.error("--quick measures models that have learned nothing: name a folder of your own with --out")
    tables = ("diabetes",) if arguments.quick else TABLES
    for table in tables:
        for model, settings in MODELS.items():
            if arguments.only in (None, f"{table}_{model}"):
                changed = {**settings, **QUICK} if arguments.quick else settings
                out = (arguments.out or RESULTS) / f"diagnosis_{table}_{model}.json"
                print(out.stem, diagnose_table(table, arguments.root, changed, out, arguments.pages), sep="\n\n")


if __name__ == "__main__":
    main()
