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
from collections.abc import Iterator, Sequence
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
from diffor.errors import UserError
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
    columns = _other_columns(rows)
    identity = _identify(columns, encoder, settings, part_rows)
    finished = _finished(path, identity, _state_of_files(rows.images), overwrite)
    if finished is not None:
        return finished
    parts = path.with_name(f"{path.name}.parts")
    _open_parts(parts, identity, overwrite)
    run = _Run(rows.images, columns, encoder, settings.broken == "skip", batch_rows, part_rows, parts)
    n_encoded = run.encode_all(verbose)
    report = _join(parts, run.n_parts, path, {IDENTITY: _to_bytes(identity), FILES: _state_of_files(rows.images)})
    shutil.rmtree(parts)
    return replace(report, n_encoded=n_encoded)


@dataclass(frozen=True)
class _Run:
    images: LazyImages
    columns: Any
    encoder: Encoder
    skips_broken: bool
    batch_rows: int
    part_rows: int
    folder: Path

    @property
    def n_parts(self) -> int:
        return -(-len(self.images) // self.part_rows)

    def encode_all(self, verbose: int) -> int:
        """Write all parts that are not there yet; the answer is how many rows that were."""
        self.encoder.eval()
        n_encoded, disable = 0, None if verbose else True  # None: silent unless on a terminal
        with tqdm(total=len(self.images), desc="embed", unit="image", disable=disable) as bar:
            for number in range(self.n_parts):
                rows = range(len(self.images))[number * self.part_rows : (number + 1) * self.part_rows]
                if self.is_done(number, rows):
                    bar.update(len(rows))
                else:
                    n_encoded += self.write_part(number, rows, bar)
        return n_encoded

    def is_done(self, number: int, rows: range) -> bool:
        """Whether a part is there and its images are still what they were."""
        from pyarrow import parquet

        try:
            facts = parquet.read_schema(_part_path(self.folder, number)).metadata
            return bool(facts[FILES] == self.state_of(rows))
        except (OSError, ValueError, TypeError, KeyError):  # not there, or damaged
            return False

    def state_of(self, rows: range) -> bytes:
        """What tells whether the files of rows have changed."""
        return _state_of_files(self.images.select(slice(rows.start, rows.stop)))

    def write_part(self, number: int, rows: range, bar: Any) -> int:
        """Encode some rows and write them, in one step; the answer is how many were whole."""
        from pyarrow import parquet

        state, encoded, broken = self.state_of(rows), [], []
        for batch, features, faults in self.encode(rows):
            encoded.append(features)
            broken += [replace(fault, row=batch.start + fault.row) for fault in faults]
            bar.update(len(batch))
        kept = np.setdiff1d(np.arange(rows.start, rows.stop), [fault.row for fault in broken])
        table = _append_features(self.columns.take(kept), np.concatenate(encoded))
        facts = {SKIPPED: _to_bytes([asdict(fault) for fault in broken]), FILES: state}
        with replacing(_part_path(self.folder, number)) as temporary:
            parquet.write_table(table.replace_schema_metadata(facts), temporary, use_dictionary=False)
        return len(kept)

    def encode(self, rows: range) -> Iterator[tuple[range, NDArray[np.float32], list[BrokenImage]]]:
        """Features of rows, a batch at a time, and the broken images of each, whose rows count within it."""
        for first in range(0, len(rows), self.batch_rows):
            batch = rows[first : first + self.batch_rows]
            self.images.expect(slice(batch.start, batch.start + AHEAD * self.batch_rows))
            pixels, broken = self.images.whole(slice(batch.start, batch.stop))
            if broken and not self.skips_broken:
                raise BrokenImageError(f"{broken[0].message}, or skip such images with broken='skip'")
            yield batch, self._features(pixels), broken

    @torch.inference_mode()
    def _features(self, pixels: torch.Tensor) -> NDArray[np.float32]:
        if not len(pixels):
            return np.zeros((0, self.encoder.out_features), dtype=np.float32)
        parameter = next(self.encoder.parameters(), None)
        device = pixels.device if parameter is None else parameter.device
        features: NDArray[np.float32] = self.encoder(pixels.to(device)).float().cpu().numpy()
        if not np.isfinite(features).all():
            raise FloatingPointError("features must be finite, but the encoder gave others; check its weights")
        return features


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def _check_output(path: Path, batch_rows: int, part_rows: int) -> None:
    for name, count in (("batch_rows", batch_rows), ("part_rows", part_rows)):
        if count < 1:
            raise UserError(f"{name} must be at least 1, but got {name}={count}")
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
        digest.update(f"{_state_of_file(str(images.decoder.sources[place]))}\0".encode())
    return digest.hexdigest().encode()


def _state_of_file(path: str) -> str:
    try:
        state = os.stat(path)
    except OSError:
        return "missing"
    return f"{state.st_size} bytes of {state.st_mtime_ns}"


def _to_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def _finished(path: Path, identity: dict[str, Any], files: bytes, overwrite: bool) -> EmbeddingReport | None:
    """What an existing file holds, if it is the very result; None where there is none, or it is to be replaced."""
    if not path.exists():
        return None
    from pyarrow import parquet

    try:
        found = parquet.ParquetFile(path)
        facts = found.schema_arrow.metadata or {}
        other = json.loads(facts.get(IDENTITY, b"{}"))
    except (OSError, ValueError):
        facts, other = {}, {}
    if {**other, "part_rows": 0} == {**identity, "part_rows": 0} and facts[FILES] == files:
        skipped = [BrokenImage(**fault) for fault in json.loads(facts[SKIPPED])]
        return EmbeddingReport(path, int(found.metadata.num_rows), _count_features(found.schema_arrow), 0, skipped)
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


def _join(folder: Path, n_parts: int, path: Path, facts: dict[bytes, bytes]) -> EmbeddingReport:
    """All parts as one file, which appears whole."""
    import pyarrow
    from pyarrow import parquet

    paths = [_part_path(folder, number) for number in range(n_parts)]
    schemas = [parquet.read_schema(part) for part in paths]
    skipped = [fault for schema in schemas for fault in json.loads(schema.metadata[SKIPPED])]
    facts = facts | {SKIPPED: _to_bytes(skipped)}
    schema = schemas[0].with_metadata(facts)
    n_rows, waiting = 0, []
    with (
        replacing(path) as temporary,
        parquet.ParquetWriter(temporary, schema, use_dictionary=False, write_statistics=False) as writer,
    ):
        for part in paths:
            waiting.append(parquet.read_table(part).replace_schema_metadata(facts))
            n_rows += len(waiting[-1])
            if sum(map(len, waiting)) >= GROUP_ROWS or part == paths[-1]:
                writer.write_table(pyarrow.concat_tables(waiting), row_group_size=2 * GROUP_ROWS)
                waiting = []
    return EmbeddingReport(path, n_rows, _count_features(schema), 0, [BrokenImage(**fault) for fault in skipped])


def is_embedding(names: Sequence[str]) -> bool:
    """Whether columns are those that :func:`embed_images` writes: their paths name rows, and predict nothing.

    >>> is_embedding(["path", "age", "feature_0000"]), is_embedding(["path", "age"])
    (True, False)
    """
    return PATH_COLUMN in names and any(name.startswith(FEATURE) and name[len(FEATURE) :].isdigit() for name in names)


def _count_features(schema: Any) -> int:
    return sum(name.startswith(FEATURE) for name in schema.names)
