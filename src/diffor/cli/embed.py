"""``diffor embed``: write the features of images to a Parquet file, which is then fitted as a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.options import add_command, as_count, reader, require_columns
from diffor.errors import UserError, did_you_mean
from diffor.files import tables

if TYPE_CHECKING:
    from diffor.encoders.images.embedding import EmbeddingReport

PATH = "path"
CARRIES_WEIGHTS = "efficientnet-lite0"
"""The network whose weights come in a package."""
MAX_SHOWN = 5
OPTIONS = {"broken='skip'": "--skip-broken", "overwrite=True": "--force", "out=": "--out "}
"""Arguments that the library's messages name, and what the command calls them."""

_as_crop = reader("lie between 0 and 1, as 0.9 does, or be 1", float, lambda share: 0 < share <= 1)
_as_workers = reader("be a whole number from 0 on", int, lambda count: count >= 0)


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "embed",
        run,
        "write the features of images to a Parquet file, to be fitted as a table; goes on where it was stopped",
        "diffor embed photos --out features.parquet",
        "diffor embed ages.csv --root faces --encoder resnet50 --weights resnet50.pth --out features.parquet",
        "diffor fit features.parquet --target age --out model",
    )
    argument = command.add_argument
    images_help = f"folder of images, or a CSV or Parquet table with a column {PATH!r}, whose other columns are kept"
    argument("images", metavar="IMAGES", help=images_help)
    argument("--out", required=True, metavar="FILE", help="Parquet file to write")
    encoder_help = "small, resnet18, resnet34, resnet50, efficientnet-lite0 or timm:NAME (default: %(default)s)"
    argument("--encoder", default=CARRIES_WEIGHTS, metavar="NAME", help=encoder_help)
    argument("--weights", metavar="FILE", help="its weights; only efficientnet-lite0 comes with some")
    argument("--pooling", choices=("mean", "mean+max"), default="mean", help="of the last maps (default: %(default)s)")
    argument("--root", metavar="DIR", help="where relative paths of a table start (default: its folder)")
    argument("--side", type=as_count, metavar="N", help="pixels that the network sees (default: 224; small: 64)")
    argument("--crop", type=_as_crop, metavar="S", help="share of the side that is seen (default: 0.875)")
    argument("--fit", choices=("crop", "stretch"), default="crop", help="of oblong images to a square")
    argument("--skip-broken", action="store_true", help="leave broken images out instead of stopping")
    argument("--workers", type=_as_workers, metavar="N", help="processes that decode (default: cores but one)")
    argument("--threads", type=as_count, metavar="N", help="threads of the network (default: all cores)")
    argument("--batch", type=as_count, default=64, metavar="N", help="images at a time (default: %(default)s)")
    argument("--force", action="store_true", help="replace FILE, or its parts, of other images or encoders")
    argument("--quiet", action="store_true", help="print neither progress nor summary")


def run(arguments: argparse.Namespace) -> None:
    """Write features, or go on with it."""
    from diffor.encoders.images.choice import ImageChoice
    from diffor.encoders.images.embedding import embed_images
    from diffor.training.loop import limit_threads

    images, root = _find_images(arguments)
    _check_encoder(arguments)
    threads = nullcontext() if arguments.threads is None else limit_threads(arguments.threads)
    choice = ImageChoice(arguments.encoder, arguments.weights, {"pooling": arguments.pooling}, freeze=True)
    settings = {"side": arguments.side, "crop": arguments.crop, "fit": arguments.fit, "n_workers": arguments.workers}
    given = {name: value for name, value in settings.items() if value is not None}
    with _messages(), threads:
        report = embed_images(
            images,
            choice.make(),
            arguments.out,
            inputs=choice.inputs({**given, "broken": "skip" if arguments.skip_broken else "raise"}),
            root=root,
            batch_rows=arguments.batch,
            overwrite=arguments.force,
            verbose=0 if arguments.quiet else 1,
        )
    if not arguments.quiet:
        print(_summary(report))


@contextmanager
def _messages() -> Iterator[None]:
    """Pass on what the library says, with the command's options in place of its arguments."""
    try:
        yield
    except UserError as error:
        text = str(error)
        for argument, option in OPTIONS.items():
            text = text.replace(argument, option)
        raise UserError(text) from error


def _find_images(arguments: argparse.Namespace) -> tuple[Any, Path | None]:
    """What embedding is to read, and where relative paths start."""
    given = Path(arguments.images)
    if given.is_dir():
        if arguments.root is not None:
            raise UserError(f"--root is for a table of paths, but {given} is a folder; leave --root out")
        return given, None
    require_columns([PATH], tables.column_names(given), given)
    table = tables.read_table(given, text=[PATH])
    missing = table[PATH].isna().to_numpy().nonzero()[0]
    if len(missing):
        raise UserError(
            f"{given} must name an image in every row, but row {missing[0] + 1} after the header has no {PATH!r}; "
            "fill it in or remove the row"
        )
    return table, given.parent if arguments.root is None else Path(arguments.root)


def _check_encoder(arguments: argparse.Namespace) -> None:
    """Refuse unknown networks, and those without weights: random features would look like any others."""
    from diffor.encoders.images.choice import reads_images
    from diffor.encoders.images.networks import IMAGE_ENCODERS, TIMM

    if not reads_images(arguments.encoder):
        raise UserError(
            f"--encoder must be one of {', '.join(IMAGE_ENCODERS)} or {TIMM}NAME, but got {arguments.encoder!r}"
            + did_you_mean(arguments.encoder, IMAGE_ENCODERS)
        )
    if arguments.weights is None and arguments.encoder != CARRIES_WEIGHTS:
        raise UserError(
            f"--encoder {arguments.encoder} needs weights that were learned, but --weights is not given; pass "
            f"their file, or choose --encoder {CARRIES_WEIGHTS}, whose weights come in a package"
        )
    if arguments.weights is not None and not Path(arguments.weights).is_file():
        raise UserError(f"--weights must be a file, but {arguments.weights} is none; check the path")


def _summary(report: EmbeddingReport) -> str:
    left_out = [f"left out         {image.name}: {image.cause}" for image in report.skipped[:MAX_SHOWN]]
    if len(report.skipped) > MAX_SHOWN:
        left_out.append(f"                 and {len(report.skipped) - MAX_SHOWN} more")
    return "\n".join([
        f"images           {report.n_rows} ({report.n_encoded} now, {report.n_rows - report.n_encoded} before)",
        f"features         {report.n_features}",
        *left_out,
        f"written to       {report.path}",
    ])  # fmt: skip
