"""Models of images: networks of the user's, saving and loading, broken files, and what is refused."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from image_examples import N_IMAGES, TINY, constant_error, mean_error
from sklearn.base import clone
from torch import nn

import diffor
from diffor import DiffoRRegressor, OrdinalRegressor
from diffor.core.pixels import BrokenImageError
from diffor.encoders.images.lazy import ImageDecoder
from diffor.estimators.rows import column_digests
from diffor.training.checkpoint import CheckpointError


class Brightness(nn.Module):
    """A user's network: mean colours, and a layer that can learn."""

    out_features = 3

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, images):
        return self.layer(images).mean(dim=(2, 3))


# Networks of the user's.


def test_a_network_of_ones_own(faces, tmp_path):
    _, paths, y = faces
    network = Brightness()
    before = network.layer.weight.detach().clone()
    model = DiffoRRegressor("fast", **(TINY | {"encoder": network, "encoder_settings": None})).fit(paths, y)
    assert torch.equal(network.layer.weight, before)  # fit learns on a copy
    assert clone(model).get_params()["encoder"] is not network
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"was fitted with a network of your own, .*: pass it"):
        diffor.load(tmp_path / "model")
    loaded = DiffoRRegressor.load(tmp_path / "model", encoder=Brightness())
    assert (loaded.predict(paths[:5]) == model.predict(paths[:5])).all()


def test_a_frozen_network_of_ones_own(faces, tmp_path):
    _, paths, y = faces
    settings = TINY | {"encoder": Brightness(), "encoder_settings": None, "freeze_backbone": True, "max_steps": 100}
    model = DiffoRRegressor("fast", **settings).fit(paths, y)
    assert mean_error(model, paths, y) < 0.5 * constant_error(y)
    model.save(tmp_path / "model")
    loaded = diffor.load(tmp_path / "model", encoder=Brightness())
    assert (loaded.predict(paths[:5]) == model.predict(paths[:5])).all()


def test_a_model_that_knows_its_network_takes_no_other(face_model, tmp_path):
    face_model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="knows its encoder"):
        diffor.load(tmp_path / "model", encoder=Brightness())


# Saving.


def test_a_saved_model_answers_the_same(faces, face_model, tmp_path):
    _, paths, _ = faces
    face_model.save(tmp_path / "model")
    loaded = diffor.load(tmp_path / "model")
    assert (loaded.predict(paths) == face_model.predict(paths)).all()
    assert loaded.images_.inputs == face_model.images_.inputs
    assert loaded.get_params()["image_settings"] == TINY["image_settings"]


def test_refitting_on_a_table_forgets_the_images(faces):
    _, paths, y = faces
    model = DiffoRRegressor("fast", **(TINY | {"max_steps": 2})).fit(paths, y)
    model.set_params(encoder="plain", encoder_settings=None, image_settings=None)
    model.fit(y[:, None], y)
    assert model.images_ is None
    assert model.n_features_in_ == 1
    model.set_params(encoder="small").fit(paths, y)
    assert not hasattr(model, "n_features_in_")


# Broken files.


@pytest.fixture
def damaged(faces, tmp_path):
    """The same files, of which the second is cut off and the fifth is missing."""
    _, paths, y = faces
    copies = []
    for number, path in enumerate(paths):
        copies.append(str(tmp_path / f"{number}.png"))
        content = Path(path).read_bytes()
        if number != 4:
            (tmp_path / f"{number}.png").write_bytes(content[: len(content) // 2] if number == 1 else content)
    return copies, y


def test_a_broken_file_is_named(damaged):
    paths, y = damaged
    with pytest.raises(BrokenImageError, match=r"(1|4)\.png must be a whole image, but .*broken='skip'"):
        DiffoRRegressor("fast", **TINY).fit(paths, y)


@pytest.mark.parametrize("freeze", [False, True])
def test_broken_files_are_skipped_with_their_targets(damaged, face_weights, freeze):
    paths, y = damaged
    wild = y.copy()
    wild[[1, 4]] = 1e6  # would ruin the fit if it were still there
    skipping = TINY | {
        "image_settings": TINY["image_settings"] | {"broken": "skip"},
        "freeze_backbone": freeze,
        "encoder_weights": face_weights if freeze else None,
    }
    whole = np.setdiff1d(np.arange(N_IMAGES), [1, 4])
    of_rows = np.where(np.isin(np.arange(N_IMAGES), [1, 4]), 50.0, 1.0)
    with pytest.warns(UserWarning, match=r"2 of 70 images are broken and left out with their rows, such as .*1\.png"):
        model = OrdinalRegressor("value-squared", bounds=(0, 1e6), **skipping).fit(paths, wild, sample_weight=of_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = OrdinalRegressor("value-squared", bounds=(0, 1e6), **skipping)
        same.fit([paths[row] for row in whole], wild[whole], sample_weight=of_rows[whole])
    tested = [paths[row] for row in whole]
    assert model.predict(tested) == pytest.approx(same.predict(tested))
    with pytest.raises(BrokenImageError, match=r"1\.png must be a whole image, .*leave it out$"):
        model.predict(paths)


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"encoder": "auto", "freeze_backbone": True},
            "freeze_backbone is for encoders of images, but encoder='auto'",
        ),
        ({"encoder": "plain", "image_settings": {"side": 8}}, "image_settings is for encoders of images, but"),
        ({"encoder": "resnet5"}, "or for images small, resnet18, .* or a network of yours, but got encoder='resnet5'"),
        (
            {"image_settings": {"sides": 8}},
            "image_settings must be among side, .*, but got 'sides' .did you mean 'side'",
        ),
        ({"encoder_settings": {"pool": "max"}}, "encoder_settings must be among n_channels, .*, but got 'pool'"),
        ({"freeze_backbone": True}, "a frozen network must have weights that were learned, but got weights=None"),
        ({"encoder": Brightness(), "encoder_settings": None, "encoder_weights": "w.pt"}, "fill it before"),
        ({"encoder": nn.Conv2d(3, 3, 1), "encoder_settings": None}, "must say how many features it gives, but"),
    ],
)
def test_wrong_settings_are_named(faces, arguments, message):
    _, paths, y = faces
    settings = {**TINY, **arguments}
    if arguments.get("encoder") in ("auto", "plain", "resnet5"):
        settings = {"random_state": 0, "verbose": 0, **arguments}
    X = paths if settings["encoder"] not in ("auto", "plain", "resnet5") else y[:, None]
    with pytest.raises(ValueError, match=message):
        DiffoRRegressor("fast", **settings).fit(X, y)


def test_weights_that_are_no_file_are_named(faces):
    _, paths, y = faces
    with pytest.raises(FileNotFoundError, match=r"weights must be a file, but none\.pt is none"):
        DiffoRRegressor("fast", **TINY, encoder_weights="none.pt").fit(paths, y)


def test_keys_follow_from_what_cells_hold():
    table = pd.DataFrame({"count": [1, 2], "name": ["a", "b"]})
    same = pd.DataFrame({"count": [1.0, 2.0], "name": pd.Categorical(["a", "b"])})
    assert torch.equal(column_digests(table, 2), column_digests(same, 2))
    assert not torch.equal(column_digests(table, 2)[0], column_digests(table, 2)[1])
    assert column_digests(None, 3).shape == (3, 0)


# What is not seen from outside.


def test_prediction_takes_a_block_of_images_at_a_time_and_keeps_none(faces, face_model, monkeypatch):
    _, paths, _ = faces
    whole = face_model.predict(paths)
    assert face_model.images_.open(paths, []).images.decoder.kept is None
    monkeypatch.setattr("diffor.estimators.rows.IMAGE_BLOCK_ROWS", 16)
    sizes = []
    decode = ImageDecoder.decode
    monkeypatch.setattr(ImageDecoder, "decode", lambda self, places: sizes.append(len(places)) or decode(self, places))
    assert face_model.predict(paths) == pytest.approx(whole, rel=1e-5)
    assert max(sizes) == 16
    assert sum(sizes) == N_IMAGES


def test_encoders_of_images_are_exported_and_imported_when_used():
    from diffor import encoders

    assert "resnet50" in encoders.IMAGE_ENCODERS
    assert encoders.ImageInputs(side=8).side == 8
    with pytest.raises(AttributeError, match="has no attribute 'VIDEO_ENCODERS'"):
        _ = encoders.VIDEO_ENCODERS
    script = "import sys, diffor.estimators.api; print('PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
