"""Features of images in a Parquet file: computed once by a fixed encoder, then a table like any other.

The work is cut into parts, each written beside its place and moved there in one step. A process that is killed loses
the part it was at; the next one goes on from there, and does parts again whose files have changed meanwhile. In the end
the parts become one file, and go.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from diffor.core.method import Encoder
from diffor.core.pixels import BrokenImage, BrokenImageError
from diffor.encoders.images.inputs import PATH_COLUMN, ImageInputs, ImageRows
from diffor.encoders.images.lazy import LazyImages
from diffor.errors import check_least
from diffor.files.atomic import replacing
from diffor.files.tables import PARQUET_SUFFIXES, DataError

PART_ROWS = 1024
GROUP_ROWS = 16_384
"""Rows of a group of the finished file: with few rows, the description of thousands of columns would outweigh them."""
BATCH_ROWS = 64
AHEAD = 4
"""Batches that worker processes decode while one is encoded."""
FEATURE = "feature_"
IDENTITY, FILES, SKIPPED = b"diffor.encoders.images.embedding", b"diffor.files", b"diffor.skipped"
PLAN = "plan.json"
VERSION = 1


@dataclass(frozen=True)
class EmbeddingReport:
    """What was written: the file, its rows and features, how many rows this call encoded, and what was left out."""

    path: Path
    n_rows: int
    n_features: int
    n_encoded: int
    skipped: list[BrokenImage]


def embed_images(
    X: Any,
    encoder: Encoder,
    out: str | Path,
    *,
    inputs: ImageInputs | None = None,
    root: str | Path | None = None,
    batch_rows: int = BATCH_ROWS,
    part_rows: int = PART_ROWS,
    overwrite: bool = False,
    verbose: int = 1,
) -> EmbeddingReport:
    """Write the features of images to a Parquet file, one row for each, in the order in which they are passed.

    Columns are ``path``, which tells rows apart, those that a data frame has beside it, and ``feature_0000`` and on.
    Called again after it was killed, it does the rest; called again when done, nothing. ``overwrite`` replaces a file,
    or parts, of other images or another encoder. A broken image is an error, or is left out where ``inputs`` say so.
    """
    path = Path(out)
    _check_output(path, batch_rows, part_rows)
    settings = ImageInputs() if inputs is None else inputs
    # Each image is needed once, so none is kept; broken ones are found on the way.
    rows = replace(settings, broken="raise", cache_bytes=0).transform(X, root)
    run = _Run(rows.images, _other_columns(rows), encoder.eval(), settings.broken == "skip", batch_rows)
    identity, files = _identify(run.columns, encoder, settings, part_rows), _state_of_files(rows.images)
    finished = _finished(path, identity, files, overwrite)
    if finished is not None:
        return finished
    folder = path.with_name(f"{path.name}.parts")
    _open_parts(folder, identity, overwrite)
    n_encoded, parts = 0, list[Path]()
    with tqdm(total=len(rows), desc="embed", unit="image", disable=None if verbose else True) as bar:
        for first in range(0, len(rows), part_rows):
            parts.append(folder / f"part-{len(parts):05d}.parquet")
            n_encoded += run.write_part(parts[-1], range(len(rows))[first : first + part_rows], bar)
    _join(parts, path, {IDENTITY: _to_bytes(identity), FILES: files})
    shutil.rmtree(folder)
    return replace(_report(path), n_encoded=n_encoded)


@dataclass(frozen=True)
class _Run:
    images: LazyImages
    columns: Any
    encoder: Encoder
    skips_broken: bool
    batch_rows: int

    def write_part(self, path: Path, rows: range, bar: Any) -> int:
        """Encode some rows and write them, in one step, unless they are there; the answer is how many were encoded."""
        from pyarrow import parquet

        state = _state_of_files(self.images.select(slice(rows.start, rows.stop)))
        try:
            is_done = parquet.read_schema(path).metadata[FILES] == state
        except (OSError, ValueError, TypeError, KeyError):  # not there, or damaged
            is_done = False
        if is_done:
            bar.update(len(rows))
            return 0
        encoded, broken = [], []
        for first in rows[:: self.batch_rows]:
            batch = slice(first, min(first + self.batch_rows, rows.stop))
            self.images.expect(slice(first, first + AHEAD * self.batch_rows))
            pixels, faults = self.images.whole(batch)
            if faults and not self.skips_broken:
                raise BrokenImageError(f"{faults[0].message}, or skip such images with broken='skip'")
            encoded.append(self.encode(pixels))
            broken += [replace(fault, row=first + fault.row) for fault in faults]
            bar.update(batch.stop - first)
        kept = np.setdiff1d(np.arange(rows.start, rows.stop), [fault.row for fault in broken])
        table = _append_features(self.columns.take(kept), np.concatenate(encoded))
        facts = {SKIPPED: _to_bytes([asdict(fault) for fault in broken]), FILES: state}
        with replacing(path) as temporary:
            parquet.write_table(table.replace_schema_metadata(facts), temporary, use_dictionary=False)
        return len(kept)

    @torch.inference_mode()
    def encode(self, pixels: torch.Tensor) -> NDArray[np.float32]:
        """Features of images. **Shape:** ``(n, 3, side, side)`` -> ``(n, out_features)``."""
        if not len(pixels):
            return np.zeros((0, self.encoder.out_features), dtype=np.float32)
        parameter = next(self.encoder.parameters(), None)
        device = pixels.device if parameter is None else parameter.device
        features: NDArray[np.float32] = self.encoder(pixels.to(device)).float().cpu().numpy()
        if not np.isfinite(features).all():
            raise FloatingPointError("features must be finite, but the encoder gave others; check its weights")
        return features


def _check_output(path: Path, batch_rows: int, part_rows: int) -> None:
    check_least("batch_rows", batch_rows)
    check_least("part_rows", part_rows)
    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise DataError(f"features are written as Parquet, but got out={path}; let it end in {PARQUET_SUFFIXES[0]}")
    if not path.parent.is_dir():
        raise DataError(f"{path} must lie in an existing folder, but {path.parent} is none; make it first")
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(f'{path} needs pyarrow to be written: pip install "diffor[parquet]"') from error


def _other_columns(rows: ImageRows) -> Any:
    """Paths and the columns beside them as an Arrow table; the paths must be files' and tell rows apart."""
    import pyarrow

    names = rows.images.names
    if not all(isinstance(source, str) for source in rows.images.decoder.sources):
        raise DataError("images must be files for their features to be kept by path, but some are in memory only")
    repeated = pd.Index(names).duplicated()
    if repeated.any():
        raise DataError(f"each image must be named once, but {names[repeated.argmax()]} stands twice; drop one")
    paths = pd.DataFrame({PATH_COLUMN: names})
    table = paths if rows.table is None else pd.concat([paths, rows.table.reset_index(drop=True)], axis=1)
    clash = next((name for name in table.columns if str(name).startswith(FEATURE)), None)
    if clash is not None:
        raise DataError(f"no column may be called as features are, but got {clash!r}; rename it")
    return pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()


def _append_features(table: Any, features: NDArray[np.float32]) -> Any:
    import pyarrow

    digits = max(4, len(str(features.shape[1] - 1)))
    columns = np.ascontiguousarray(features.T)
    names = [f"{FEATURE}{place:0{digits}d}" for place in range(len(columns))]
    features_table = pyarrow.table([pyarrow.array(column) for column in columns], names=names)
    return pyarrow.table([*table.columns, *features_table.columns], names=[*table.column_names, *names])


# What a file or its parts belong to.


def _identify(columns: Any, encoder: Encoder, settings: ImageInputs, part_rows: int) -> dict[str, Any]:
    """What the result depends on beside the content of the files: paths and other columns, encoder, settings."""
    table = hashlib.sha256(repr(columns.schema).encode())
    for batch in columns.to_batches():
        table.update(repr(batch.to_pydict()).encode())
    weights = hashlib.sha256(repr(encoder).encode())
    for name, tensor in encoder.state_dict().items():
        weights.update(name.encode())
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return {
        "version": VERSION,
        "columns": table.hexdigest(),
        "encoder": weights.hexdigest(),
        "images": {name: getattr(settings, name) for name in ("side", "crop", "fit", "broken")},
        "part_rows": part_rows,
    }


def _state_of_files(images: LazyImages) -> bytes:
    """A digest of the sizes and times of the images' files."""
    digest = hashlib.sha256()
    for place in images.places:
        try:
            found = os.stat(str(images.decoder.sources[place]))
            state = f"{found.st_size} bytes of {found.st_mtime_ns}"
        except OSError:
            state = "missing"
        digest.update(f"{state}\0".encode())
    return digest.hexdigest().encode()


def _to_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def _finished(path: Path, identity: dict[str, Any], files: bytes, overwrite: bool) -> EmbeddingReport | None:
    """What an existing file holds, if it is the very result; None where there is none, or it is to be replaced."""
    if not path.exists():
        return None
    from pyarrow import parquet

    try:
        facts = parquet.read_schema(path).metadata or {}
        other = json.loads(facts.get(IDENTITY, b"{}"))
    except (OSError, ValueError):
        facts, other = {}, {}
    if {**other, "part_rows": 0} == {**identity, "part_rows": 0} and facts[FILES] == files:
        return _report(path)
    if not overwrite:
        raise DataError(
            f"{path} must not exist, or hold features of these images by this encoder, but it holds something "
            "else; choose another file, or pass overwrite=True"
        )
    return None


def _open_parts(folder: Path, identity: dict[str, Any], overwrite: bool) -> None:
    """Make the folder of the parts, or check that the one that is there belongs to the same work."""
    plan = folder / PLAN
    if folder.exists():
        try:
            is_same = json.loads(plan.read_text(encoding="utf-8")) == identity
        except (OSError, ValueError):
            is_same = not any(folder.glob("part-*"))  # killed before it began, so there is nothing to lose
        if not is_same and not overwrite:
            raise DataError(
                f"{folder} must belong to these images and this encoder, but it belongs to others; delete it, or "
                "pass overwrite=True"
            )
        if not is_same:
            shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    for unfinished in folder.glob(".part-*"):
        unfinished.unlink()
    with replacing(plan) as temporary:
        temporary.write_bytes(_to_bytes(identity))


def _join(parts: Sequence[Path], path: Path, facts: dict[bytes, bytes]) -> None:
    """All parts as one file, which appears whole."""
    import pyarrow
    from pyarrow import parquet

    schemas = [parquet.read_schema(part) for part in parts]
    skipped = [fault for schema in schemas for fault in json.loads(schema.metadata[SKIPPED])]
    facts, waiting = facts | {SKIPPED: _to_bytes(skipped)}, []
    schema = schemas[0].with_metadata(facts)
    with (
        replacing(path) as temporary,
        parquet.ParquetWriter(temporary, schema, use_dictionary=False, write_statistics=False) as writer,
    ):
        for part in parts:
            waiting.append(parquet.read_table(part).replace_schema_metadata(facts))
            if sum(map(len, waiting)) >= GROUP_ROWS or part == parts[-1]:
                writer.write_table(pyarrow.concat_tables(waiting), row_group_size=2 * GROUP_ROWS)
                waiting = []


def _report(path: Path) -> EmbeddingReport:
    """What a finished file holds."""
    from pyarrow import parquet

    found = parquet.read_metadata(path)
    skipped = [BrokenImage(**fault) for fault in json.loads(found.metadata[SKIPPED])]
    n_features = sum(name.startswith(FEATURE) for name in found.schema.names)
    return EmbeddingReport(path, int(found.num_rows), n_features, 0, skipped)


def is_embedding(names: Sequence[str]) -> bool:
    """Whether columns are those that :func:`embed_images` writes: their paths name rows, and predict nothing.

    >>> is_embedding(["path", "age", "feature_0000"]), is_embedding(["path", "age"])
    (True, False)
    """
    return PATH_COLUMN in names and any(name.startswith(FEATURE) and name[len(FEATURE) :].isdigit() for name in names)
