"""Features of images in a Parquet file: whole, in order, resumable, with broken files named."""

import multiprocessing
import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from diffor.core.method import Encoder
from diffor.core.pixels import BrokenImageError
from diffor.encoders.images.embedding import embed_images
from diffor.encoders.images.inputs import ImageInputs
from diffor.files.tables import DataError, read_table

SMALL = ImageInputs(side=8, crop=1.0, n_workers=0)
SKIPPING = ImageInputs(side=8, crop=1.0, n_workers=0, broken="skip")


class Colours(Encoder):
    """Mean colours times a weight: features that one can check. It counts what it sees and may die of it."""

    out_features = 3

    def __init__(self, weight=1.0, deadly=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))
        self.n_seen, self.deadly = 0, deadly

    def forward(self, *inputs):
        self.n_seen += len(inputs[0])
        if self.deadly is not None and self.n_seen >= self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return inputs[0].float().mean(dim=(2, 3)) * self.weight


@pytest.fixture
def folder(tmp_path):
    """Ten plain images, the k-th of brightness 20 k, in a folder of their own."""
    images = tmp_path / "images"
    images.mkdir()
    for number in range(10):
        Image.new("RGB", (12, 9), (20 * number, 20 * number, 7)).save(images / f"{number}.png")
    return images


def break_some(folder):
    (folder / "3.png").write_bytes((folder / "3.png").read_bytes()[:40])
    (folder / "8.png").unlink()


def test_features_stand_beside_their_paths_in_order(folder, tmp_path):
    report = embed_images(folder, Colours(), tmp_path / "features.parquet", inputs=SMALL, batch_rows=2, part_rows=4)
    table = read_table(tmp_path / "features.parquet")
    assert table.columns.tolist() == ["path", "feature_0000", "feature_0001", "feature_0002"]
    assert table["path"].tolist() == [f"{number}.png" for number in range(10)]
    assert table["feature_0000"].tolist() == [20.0 * number for number in range(10)]
    assert table["feature_0002"].tolist() == [7.0] * 10
    assert table["feature_0000"].dtype == np.float32
    assert (report.n_rows, report.n_features, report.n_encoded, report.skipped) == (10, 3, 10, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.parquet", "images"]


def test_columns_beside_the_path_are_kept(folder, tmp_path):
    frame = pd.DataFrame({"age": [31, 5], "path": ["4.png", "2.png"], "name": ["a", None]}, index=[7, 8])
    embed_images(frame, Colours(), tmp_path / "out.parquet", inputs=SMALL, root=folder)
    table = parquet.read_table(tmp_path / "out.parquet").select(["path", "age", "name", "feature_0000"])
    assert table.to_pydict() == {
        "path": ["4.png", "2.png"], "age": [31, 5], "name": ["a", None], "feature_0000": [80.0, 40.0],
    }  # fmt: skip


def test_workers_give_the_same_features(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    random = np.random.default_rng(0)
    for number in range(70):
        Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(images / f"{number:02d}.png")
    (images / "33.png").write_bytes(b"")
    aided = ImageInputs(side=8, crop=1.0, n_workers=1, broken="skip")
    for name, inputs in (("alone", SKIPPING), ("aided", aided)):
        embed_images(images, Colours(), tmp_path / f"{name}.parquet", inputs=inputs, batch_rows=8, part_rows=32)
    alone, found = (read_table(tmp_path / f"{name}.parquet") for name in ("alone", "aided"))
    assert len(alone) == 69
    pd.testing.assert_frame_equal(alone, found)


def test_a_broken_image_is_named_or_left_out(folder, tmp_path):
    paths = sorted(map(str, folder.iterdir()))
    break_some(folder)
    out = tmp_path / "out.parquet"
    with pytest.raises(BrokenImageError, match=r"3\.png must be a whole image, but .*broken='skip'"):
        embed_images(paths, Colours(), out, inputs=SMALL, batch_rows=2, part_rows=2)
    assert not out.exists()
    out = tmp_path / "other.parquet"
    # A part of one broken image is empty.
    report = embed_images(paths, Colours(), out, inputs=SKIPPING, batch_rows=3, part_rows=1)
    assert [(image.row, os.path.basename(image.name)) for image in report.skipped] == [(3, "3.png"), (8, "8.png")]
    assert [os.path.basename(path) for path in read_table(out)["path"]] == [
        f"{n}.png" for n in (0, 1, 2, 4, 5, 6, 7, 9)
    ]
    again = embed_images(paths, Colours(), out, inputs=SKIPPING)
    assert (again.n_encoded, again.n_rows, again.skipped) == (0, 8, report.skipped)


def _embed(folder, encoder, out):
    embed_images(folder, encoder, out, inputs=SMALL, batch_rows=2, part_rows=4)


def test_a_killed_run_goes_on_where_it_was(folder, tmp_path):
    out, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    child = multiprocessing.get_context("fork").Process(target=_embed, args=(folder, Colours(deadly=7), out))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert not out.exists()
    assert [path.name for path in parts.glob("part-*")] == ["part-00000.parquet"]
    (parts / ".part-00001.abc.parquet").write_bytes(b"half a file")  # what a kill leaves while a part is written
    encoder = Colours()
    report = embed_images(folder, encoder, out, inputs=SMALL, batch_rows=2, part_rows=4)
    assert (encoder.n_seen, report.n_encoded, report.n_rows) == (6, 6, 10)
    assert read_table(out)["feature_0000"].tolist() == [20.0 * number for number in range(10)]
    assert not parts.exists()


def test_a_finished_file_is_not_made_again(folder, tmp_path):
    out, encoder = tmp_path / "out.parquet", Colours()
    first = embed_images(folder, Colours(), out, inputs=SMALL)
    assert embed_images(folder, encoder, out, inputs=SMALL, part_rows=3) == replace(first, n_encoded=0)
    assert encoder.n_seen == 0


@pytest.mark.parametrize("change", ["encoder", "side", "file", "column", "foreign"])
def test_files_of_other_work_are_replaced_only_if_asked(folder, tmp_path, change):
    out = tmp_path / "out.parquet"
    frame = pd.DataFrame({"path": [f"{number}.png" for number in range(10)], "age": range(10)})
    embed_images(frame, Colours(), out, inputs=SMALL, root=folder)
    encoder, inputs = Colours(), SMALL
    if change == "encoder":
        encoder = Colours(weight=2.0)
    elif change == "side":
        inputs = ImageInputs(side=6, crop=1.0, n_workers=0)
    elif change == "file":
        Image.new("RGB", (12, 9), (99, 99, 99)).save(folder / "0.png")
    elif change == "column":
        frame["age"] += 1
    else:
        out.write_text("my notes")
    with pytest.raises(DataError, match=r"hold features of these images by this encoder, but .*overwrite=True"):
        embed_images(frame, encoder, out, inputs=inputs, root=folder)
    assert embed_images(frame, encoder, out, inputs=inputs, root=folder, overwrite=True).n_encoded == 10
    assert len(read_table(out)) == 10


@pytest.fixture
def begun(folder, tmp_path):
    """A run that stopped at the last of its three parts, as an image was broken, which is whole again."""
    broken = folder / "9.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(BrokenImageError):
        embed_images(folder, Colours(), tmp_path / "out.parquet", inputs=SMALL, batch_rows=2, part_rows=4)
    broken.write_bytes(whole)
    assert len(list((tmp_path / "out.parquet.parts").glob("part-*"))) == 2
    return tmp_path / "out.parquet"


@pytest.mark.parametrize(("change", "n_encoded"), [("nothing", 2), ("an image", 6), ("a damaged part", 6)])
def test_a_run_goes_on_and_makes_parts_again_where_something_has_changed(folder, begun, change, n_encoded):
    if change == "an image":
        Image.new("RGB", (12, 9), (250, 250, 250)).save(folder / "1.png")
    elif change == "a damaged part":
        (begun.with_name("out.parquet.parts") / "part-00000.parquet").write_bytes(b"")
    assert embed_images(folder, Colours(), begun, inputs=SMALL, part_rows=4).n_encoded == n_encoded
    second = 250.0 if change == "an image" else 20.0
    assert read_table(begun)["feature_0000"].tolist()[:3] == [0.0, second, 40.0]


def test_parts_of_other_work_are_replaced_only_if_asked(folder, begun):
    with pytest.raises(DataError, match=r"parts must belong to these images .* but it belongs to others; delete"):
        embed_images(folder, Colours(2.0), begun, inputs=SMALL, part_rows=4)
    assert embed_images(folder, Colours(2.0), begun, inputs=SMALL, part_rows=4, overwrite=True).n_encoded == 10
    assert read_table(begun)["feature_0000"].tolist() == [40.0 * number for number in range(10)]


def test_what_cannot_be_written_is_refused(folder, tmp_path, monkeypatch):
    out = tmp_path / "out.parquet"
    arrays = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    clash = pd.DataFrame({"path": ["0.png"], "feature_1": [0]})
    cases = [
        (lambda: embed_images(folder, Colours(), tmp_path / "out.csv"), r"but got out=.*out\.csv; let it end in"),
        (lambda: embed_images(folder, Colours(), tmp_path / "no" / "out.parquet"), "existing folder, but .*no is"),
        (lambda: embed_images(arrays, Colours(), out), "must be files .* but some are in memory only"),
        (lambda: embed_images(["0.png", "0.png"], Colours(), out, root=folder), r"once, but 0\.png stands twice"),
        (lambda: embed_images(clash, Colours(), out, root=folder), "but got 'feature_1'; rename it"),
        (lambda: embed_images(folder, Colours(), out, part_rows=0), "but got part_rows=0"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(FloatingPointError, match="must be finite, but the encoder gave others"):
        embed_images(folder, Colours(float("nan")), out, inputs=SMALL)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r'needs pyarrow to be written: pip install "diffor\[parquet\]"'):
        embed_images(folder, Colours(), out, inputs=SMALL)
