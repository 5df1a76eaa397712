"""Estimators that learn from images: every form of X, columns beside them, frozen networks and fine-tuned ones."""

import numpy as np
import pandas as pd
import pytest
import torch
from image_examples import N_IMAGES, TINY, constant_error, mean_error
from PIL import Image

import diffor
import diffor.training.loop as training
from diffor import DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.encoders.images.convnets import SmallConvNet
from diffor.estimators.settings import RATE_WITH_WEIGHTS, resolve_settings

# Forms of X.


def test_a_small_network_learns_from_files(faces, face_model):
    _, paths, y = faces
    assert mean_error(face_model, paths, y) < 0.5 * constant_error(y)
    assert face_model.encoders_ == ["images"]
    assert face_model.settings_.batch_size == 64
    assert not hasattr(face_model, "n_features_in_")
    assert face_model.predict_interval(paths[:3]).shape == (3, 2)


def test_every_form_of_the_same_images_has_the_same_answer(faces, face_model):
    folder, paths, _ = faces
    expected = face_model.predict(paths)
    opened = [Image.open(path) for path in paths[:8]]
    pixels = np.stack([np.asarray(image) for image in opened])
    assert (face_model.predict(folder) == expected).all()
    assert (face_model.predict(pd.DataFrame({"path": paths})) == expected).all()
    assert (face_model.predict(opened) == expected[:8]).all()
    assert (face_model.predict(pixels) == expected[:8]).all()
    assert (face_model.predict(list(pixels)) == expected[:8]).all()


@pytest.mark.parametrize("form", ["folder", "array"])
def test_every_form_can_be_fitted(faces, form):
    folder, paths, y = faces
    pixels = np.stack([np.asarray(Image.open(path)) for path in paths])
    X = {
        "folder": str(folder),
        "array": pixels,
    }[form]
    model = DiffoRRegressor("fast", **(TINY | {"max_steps": 2})).fit(X, y)
    assert model.predict(X).shape == (N_IMAGES,)


def test_columns_beside_the_path_are_features_too(faces):
    _, paths, _ = faces
    random = np.random.default_rng(1)
    grey = [paths[0]] * 120  # the images say nothing
    table = pd.DataFrame({"height": random.uniform(0, 1, 120), "path": grey, "sex": random.choice(["f", "m"], 120)})
    y = 10 * table["height"].to_numpy() + 5 * (table["sex"] == "m").to_numpy()
    model = DiffoRRegressor("fast", **TINY | {"max_steps": 80}).fit(table, y)
    assert model.encoders_ == ["piecewise"]
    assert mean_error(model, table, y) < 0.4 * constant_error(y)
    shuffled = table[["sex", "path", "height"]]
    assert (model.predict(shuffled) == model.predict(table)).all()
    with pytest.raises(ValueError, match=r"X must have the columns .* .*missing: 'height', 'sex'"):
        model.predict(grey)
    with pytest.raises(ValueError, match="not seen in fit: 'shoe'"):
        model.predict(table.assign(shoe=1))


def test_validation_images_may_be_passed(faces):
    _, paths, y = faces
    model = DiffoRRegressor("fast", **TINY).fit(paths[:60], y[:60], X_val=paths[60:], y_val=y[60:])
    assert model.history_.best_score is not None
    with pytest.raises(ValueError, match="not seen in fit: 'shift'"):
        model.fit(paths[:60], y[:60], X_val=pd.DataFrame({"path": paths[60:], "shift": 0.0}), y_val=y[60:])


def test_grades_of_images(faces):
    _, paths, y = faces
    grades = np.array(["dark", "grey", "light"])[np.digitize(y, [33, 66])]
    model = OrdinalClassifier("corn", grades=["dark", "grey", "light"], **TINY).fit(paths, grades)
    assert (model.predict(paths) == grades).mean() > 0.6
    assert model.predict_proba(paths[:4]).sum(axis=1) == pytest.approx(1)


def test_other_methods_read_images_too(faces, tmp_path):
    _, paths, y = faces
    model = OrdinalRegressor("dldl", **TINY).fit(paths, y)
    assert mean_error(model, paths, y) < constant_error(y)
    model.save(tmp_path / "model")
    assert (diffor.load(tmp_path / "model").predict(paths[:5]) == model.predict(paths[:5])).all()


def test_intervals_of_images_can_be_guaranteed(faces):
    _, paths, y = faces
    model = DiffoRRegressor("fast", bounds=(0, 100), **TINY).fit(paths[:30], y[:30]).conformalize(paths[30:], y[30:])
    low, high = model.predict_interval(paths[30:], 0.9).T
    assert ((low <= y[30:]) & (y[30:] <= high)).mean() >= 0.9
    with pytest.raises(ValueError, match="X_cal and y_cal must be equally long, but got 40 rows and 3 targets"):
        model.conformalize(paths[30:], y[:3])


# Frozen and fine-tuned.


def test_a_frozen_network_is_asked_once_for_each_image(faces, face_weights, monkeypatch, tmp_path):
    folder, paths, y = faces
    seen = []
    forward = SmallConvNet.forward
    monkeypatch.setattr(SmallConvNet, "forward", lambda self, images: seen.append(len(images)) or forward(self, images))
    frozen = TINY | {"freeze_backbone": True, "encoder_weights": face_weights, "max_steps": 100}
    model = DiffoRRegressor("fast", **frozen).fit(paths, y)
    assert sum(seen) == N_IMAGES
    assert model.encoders_ == ["advised"]
    assert mean_error(model, paths, y) < 0.6 * constant_error(y)
    before = torch.load(face_weights, weights_only=True)
    after = model.images_.frozen.backbone.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    model.save(tmp_path / "model")
    weights_moved = diffor.load(tmp_path / "model")
    assert (weights_moved.predict(folder) == model.predict(paths)).all()
    assert weights_moved.images_.frozen.freeze


def test_a_frozen_network_beside_columns(faces, face_weights, tmp_path):
    _, paths, y = faces
    table = pd.DataFrame({"path": paths, "shift": np.random.default_rng(1).uniform(-100, 100, N_IMAGES)})
    frozen = TINY | {"freeze_backbone": True, "encoder_weights": face_weights, "max_steps": 150}
    model = DiffoRRegressor("fast", **frozen).fit(table, y + table["shift"])
    assert mean_error(model, table, y + table["shift"]) < 0.6 * constant_error(y)
    model.save(tmp_path / "model")
    assert (diffor.load(tmp_path / "model").predict(table) == model.predict(table)).all()
    with pytest.raises(ValueError, match="missing: 'shift'"):
        model.predict(paths)


def test_fine_tuning_starts_from_the_weights_and_keeps_their_statistics(faces, face_weights, tmp_path):
    _, paths, y = faces
    tuned = TINY | {"encoder_weights": str(face_weights), "max_steps": 4, "backbone_learning_rate": 1e-6}
    model = DiffoRRegressor("fast", **tuned).fit(paths, y)
    backbone = model.model_.members[0].encoder.backbone
    before = torch.load(face_weights, weights_only=True)
    for name, tensor in backbone.state_dict().items():
        torch.testing.assert_close(tensor, before[name], atol=1e-4, rtol=0)
        assert torch.equal(tensor, before[name]) or not name.endswith(("running_mean", "running_var"))
    moved = [not torch.equal(tensor, before[name]) for name, tensor in backbone.state_dict().items()]
    assert any(moved)
    weights_file_is_gone = tmp_path / "model"
    model.save(weights_file_is_gone)
    loaded = diffor.load(weights_file_is_gone)
    assert loaded.model_.members[0].encoder.fix_statistics
    assert (loaded.predict(paths[:5]) == model.predict(paths[:5])).all()


def test_settings_suit_a_network_of_images_and_its_weights(faces, face_weights):
    assert resolve_settings("fast", {"encoder": "small"}).backbone_learning_rate is None
    with_weights = {"encoder": "small", "encoder_weights": face_weights}
    assert resolve_settings("fast", with_weights).backbone_learning_rate == RATE_WITH_WEIGHTS
    assert resolve_settings("fast", {"encoder": "efficientnet-lite0"}).backbone_learning_rate == RATE_WITH_WEIGHTS
    assert resolve_settings("paper", {"encoder": "resnet18"}).batch_size == 128
    assert resolve_settings("fast", {"encoder": "small", "batch_size": 7}).batch_size == 7
    assert resolve_settings("fast", {"encoder": "small"}).learning_rate == 6e-3
    assert resolve_settings("paper", {"encoder": "small"}).learning_rate == 5e-4
    assert resolve_settings("balanced", {"encoder": "small", "n_members": 3}).n_members == 3


def test_a_batch_in_pieces_has_the_gradient_of_the_whole(faces):
    _, paths, y = faces
    # No batch statistics and no noise that depends on the pieces: value regression on fixed statistics.
    still = {"n_channels": 4, "fix_statistics": True, "dropout": 0.0}
    quiet = TINY | {"encoder_settings": still, "max_steps": 3, "batch_size": 32}
    whole = OrdinalRegressor("value-squared", **quiet).fit(paths, y)
    pieces = OrdinalRegressor("value-squared", **quiet, accumulate=4).fit(paths, y)
    assert pieces.predict(paths) == pytest.approx(whole.predict(paths), rel=1e-3)
    losses = [dict(model.history_.records[0], seconds=0) for model in (pieces, whole)]
    assert len(losses[0]) > 3
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_run_that_was_stopped_goes_on(faces, tmp_path):
    _, paths, y = faces
    once = DiffoRRegressor("fast", **TINY).fit(paths, y)
    stopped = DiffoRRegressor("fast", **TINY, checkpoint_dir=tmp_path)
    take, calls = training.Rows.take, []

    def take_some(self, index, step=None):
        calls.append(step)
        if step == 20:
            raise RuntimeError("the machine stops")
        return take(self, index, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Rows, "take", take_some)
        with pytest.raises(RuntimeError, match="the machine stops"):
            stopped.fit(paths, y)
    assert (stopped.fit(paths, y).predict(paths) == once.predict(paths)).all()


def test_worker_processes_change_nothing(faces, face_model):
    _, paths, y = faces
    settings = TINY | {"image_settings": {"side": 16, "crop": 1.0, "n_workers": 1, "cache_bytes": 0}}
    model = DiffoRRegressor("fast", bounds=(0, 100), **settings).fit(paths, y)
    assert (model.predict(paths) == face_model.predict(paths)).all()
