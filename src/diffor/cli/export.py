"""``diffor export``: write a model's whole answer as one ONNX program."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffor.cli.model_folder import is_classifier, load_model
from diffor.cli.options import add_command, as_levels, as_share
from diffor.errors import UserError
from diffor.files import tables

LEVELS = "0.05,0.25,0.5,0.75,0.95"


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "export",
        run,
        "write a model's whole answer as one ONNX program, which runs without torch and diffor",
        "diffor export model --out model.onnx",
        "diffor export model --out model.onnx --coverage 0.8 --quantiles 0.1,0.5,0.9",
    )
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    argument("--out", required=True, metavar="FILE", help=".onnx file to write")
    argument("--quantiles", type=as_levels, metavar="Q,...", help=f"levels of the output quantiles (default: {LEVELS})")
    argument("--coverage", type=as_share, metavar="C", help="of the output interval (default: 0.9)")
    argument("--force", action="store_true", help="replace FILE if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Write the program and say what it reads and answers with."""
    out = Path(arguments.out)
    if out.suffix.lower() != ".onnx":
        raise UserError(f"{out} must end in .onnx, but it does not; rename it")
    tables.check_output(out, arguments.force)
    model = load_model(Path(arguments.model), may_read_images=True)
    for option in ("quantiles", "coverage"):
        if is_classifier(model) and getattr(arguments, option) is not None:
            raise UserError(f"--{option} is for amounts, but MODEL predicts grades; leave it out")
    from diffor.export import export_model

    facts = export_model(
        model, out, quantiles=arguments.quantiles or as_levels(LEVELS), coverage=arguments.coverage or 0.9
    )
    columns, images = facts["columns"], facts["images"]
    pixels = "" if images is None else f"an image of {images['side']} pixels a side, "
    print(f"{out}: {pixels}{len(columns['numbers'])} numbers and {len(columns['categories'])} categories in for each "
          f"row; {out.stat().st_size / 1e6:.1f} MB")  # fmt: skip
    if facts.get("limit") == "share":
        print("the limit of each row is the input upper, and no answer exceeds it")
    elif not is_classifier(model):
        print("limits of rows are not read: cut the outputs cdf and knots to them (docs/export.md shows how)")
