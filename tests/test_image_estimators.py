"""Estimators that read images: every form of X, both encoders' ways, broken files, saving, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from torch import nn

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.checkpoint import CheckpointError
from diffor.encoders.convnets import SmallConvNet
from diffor.image_decoding import BrokenImageError
from diffor.passed_inputs import column_digests

N_IMAGES = 70
TINY = {
    "encoder": "small",
    "encoder_settings": {"n_channels": 4},
    "image_settings": {"side": 16, "crop": 1.0, "n_workers": 0},
    "max_steps": 30,
    "evaluate_every": 15,
    "random_state": 0,
    "verbose": 0,
}


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    """Noisy squares whose brightness is the target, as files; the folder, their paths and the targets."""
    folder = tmp_path_factory.mktemp("faces")
    random = np.random.default_rng(0)
    y = random.uniform(0, 100, N_IMAGES)
    paths = []
    for number, value in enumerate(y):
        pixels = np.clip(random.normal(2.5 * value, 20, (18, 16, 3)), 0, 255).astype(np.uint8)
        paths.append(str(folder / f"{number:03d}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return folder, paths, y


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of weights for the small network."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "small.pt"
    torch.save(SmallConvNet(4).state_dict(), path)
    return path


@pytest.fixture(scope="module")
def fitted(faces):
    """A regressor that has learned from files."""
    _, paths, y = faces
    return DiffoRRegressor("fast", bounds=(0, 100), **TINY).fit(paths, y)


class Brightness(nn.Module):
    """A user's network: mean colours, and a layer that can learn."""

    out_features = 3

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, images):
        return self.layer(images).mean(dim=(2, 3))


def mean_error(model, X, y):
    return np.abs(model.predict(X) - y).mean()


def constant_error(y):
    return np.abs(y - np.median(y)).mean()


# Forms of X.


def test_a_small_network_learns_from_files(faces, fitted):
    _, paths, y = faces
    assert mean_error(fitted, paths, y) < 0.5 * constant_error(y)
    assert fitted.encoders_ == ["images"]
    assert fitted.settings_.batch_size == 64
    assert not hasattr(fitted, "n_features_in_")
    assert fitted.predict_interval(paths[:3]).shape == (3, 2)


def test_every_form_of_the_same_images_has_the_same_answer(faces, fitted):
    folder, paths, _ = faces
    expected = fitted.predict(paths)
    opened = [Image.open(path) for path in paths[:8]]
    pixels = np.stack([np.asarray(image) for image in opened])
    assert (fitted.predict(folder) == expected).all()
    assert (fitted.predict(pd.DataFrame({"path": paths})) == expected).all()
    assert (fitted.predict(opened) == expected[:8]).all()
    assert (fitted.predict(pixels) == expected[:8]).all()
    assert (fitted.predict(list(pixels)) == expected[:8]).all()


@pytest.mark.parametrize("form", ["folder", "frame", "array", "pictures"])
def test_every_form_can_be_fitted(faces, form):
    folder, paths, y = faces
    pixels = np.stack([np.asarray(Image.open(path)) for path in paths])
    X = {
        "folder": str(folder),
        "frame": pd.DataFrame({"path": paths}),
        "array": pixels,
        "pictures": [Image.fromarray(one) for one in pixels],
    }[form]
    model = DiffoRRegressor("fast", **(TINY | {"max_steps": 2})).fit(X, y)
    assert model.predict(X).shape == (N_IMAGES,)


def test_answers_do_not_depend_on_the_rows_beside_them(faces, fitted):
    _, paths, _ = faces
    assert fitted.predict(paths[3:6]) == pytest.approx(fitted.predict(paths)[3:6], rel=1e-5)
    assert fitted.predict(paths[::-1])[::-1] == pytest.approx(fitted.predict(paths), rel=1e-5)


def test_columns_beside_the_path_are_features_too(faces):
    _, paths, _ = faces
    random = np.random.default_rng(1)
    grey = [paths[0]] * 120  # the images say nothing
    table = pd.DataFrame({"height": random.uniform(0, 1, 120), "path": grey, "sex": random.choice(["f", "m"], 120)})
    y = 10 * table["height"].to_numpy() + 5 * (table["sex"] == "m").to_numpy()
    model = DiffoRRegressor("fast", **TINY).fit(table, y)
    assert model.encoders_ == ["periodic+guide"]
    assert mean_error(model, table, y) < 0.4 * constant_error(y)
    shuffled = table[["sex", "path", "height"]]
    assert (model.predict(shuffled) == model.predict(table)).all()
    with pytest.raises(ValueError, match=r"X must have the columns .*, however: missing: 'height', 'sex'"):
        model.predict(grey)
    with pytest.raises(ValueError, match="however: not seen in fit: 'shoe'"):
        model.predict(table.assign(shoe=1))


def test_images_and_columns_both_matter(faces):
    _, paths, y = faces
    shift = np.random.default_rng(1).uniform(-100, 100, N_IMAGES)
    table = pd.DataFrame({"path": paths, "shift": shift})
    model = DiffoRRegressor("fast", **(TINY | {"max_steps": 80, "guide": False})).fit(table, y + shift)
    error = mean_error(model, table, y + shift)
    assert error < 0.6 * constant_error(y)  # what the column alone would leave
    assert error < 0.6 * constant_error(shift)  # what the images alone would leave


def test_validation_images_may_be_passed(faces):
    _, paths, y = faces
    model = DiffoRRegressor("fast", **TINY).fit(paths[:60], y[:60], X_val=paths[60:], y_val=y[60:])
    assert model.history_.best_score is not None
    with pytest.raises(ValueError, match="however: not seen in fit: 'shift'"):
        model.fit(paths[:60], y[:60], X_val=pd.DataFrame({"path": paths[60:], "shift": 0.0}), y_val=y[60:])


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiffoRClassifier("fast", **TINY),
        lambda: OrdinalClassifier("corn", **TINY),
    ],
)
def test_grades_of_images(faces, make):
    _, paths, y = faces
    grades = np.array(["dark", "grey", "light"])[np.digitize(y, [33, 66])]
    model = make().set_params(grades=["dark", "grey", "light"]).fit(paths, grades)
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
    with pytest.raises(ValueError, match="X_cal and y_cal must be equally long, however: 40 rows and 3 targets"):
        model.conformalize(paths[30:], y[:3])


# Frozen and fine-tuned.


def test_a_frozen_network_is_asked_once_for_each_image(faces, weights, monkeypatch, tmp_path):
    folder, paths, y = faces
    seen = []
    forward = SmallConvNet.forward
    monkeypatch.setattr(SmallConvNet, "forward", lambda self, images: seen.append(len(images)) or forward(self, images))
    frozen = TINY | {"freeze_backbone": True, "encoder_weights": weights, "max_steps": 100}
    model = DiffoRRegressor("fast", **frozen).fit(paths, y)
    assert sum(seen) == N_IMAGES
    assert model.encoders_ == ["plain"]
    assert mean_error(model, paths, y) < 0.6 * constant_error(y)
    before = torch.load(weights, weights_only=True)
    after = model.images_.frozen.backbone.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    model.save(tmp_path / "model")
    weights_moved = diffor.load(tmp_path / "model")
    assert (weights_moved.predict(folder) == model.predict(paths)).all()
    assert weights_moved.images_.frozen.freeze


def test_a_frozen_network_beside_columns(faces, weights, tmp_path):
    _, paths, y = faces
    table = pd.DataFrame({"path": paths, "shift": np.random.default_rng(1).uniform(-100, 100, N_IMAGES)})
    frozen = TINY | {"freeze_backbone": True, "encoder_weights": weights, "max_steps": 150}
    model = DiffoRRegressor("fast", **frozen).fit(table, y + table["shift"])
    assert mean_error(model, table, y + table["shift"]) < 0.6 * constant_error(y)
    model.save(tmp_path / "model")
    assert (diffor.load(tmp_path / "model").predict(table) == model.predict(table)).all()
    with pytest.raises(ValueError, match="however: missing: 'shift'"):
        model.predict(paths)


def test_fine_tuning_starts_from_the_weights_and_keeps_their_statistics(faces, weights, tmp_path):
    _, paths, y = faces
    tuned = TINY | {"encoder_weights": str(weights), "max_steps": 4, "backbone_learning_rate": 1e-6}
    model = DiffoRRegressor("fast", **tuned).fit(paths, y)
    backbone = model.model_.members[0].encoder.backbone
    before = torch.load(weights, weights_only=True)
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


def test_the_learning_rate_of_the_network_suits_its_weights(faces, weights):
    from diffor.presets import RATE_FROM_SCRATCH, RATE_WITH_WEIGHTS, resolve_settings

    assert resolve_settings("fast", {"encoder": "small"}).backbone_learning_rate == RATE_FROM_SCRATCH
    with_weights = {"encoder": "small", "encoder_weights": weights}
    assert resolve_settings("fast", with_weights).backbone_learning_rate == RATE_WITH_WEIGHTS
    assert resolve_settings("fast", {"encoder": "efficientnet-lite0"}).backbone_learning_rate == RATE_WITH_WEIGHTS
    assert resolve_settings("paper", {"encoder": "resnet18"}).batch_size == 128
    assert resolve_settings("fast", {"encoder": "small", "batch_size": 7}).batch_size == 7
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
    import diffor.train as training

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


def test_worker_processes_change_nothing(faces, fitted):
    _, paths, y = faces
    settings = TINY | {"image_settings": {"side": 16, "crop": 1.0, "n_workers": 1, "cache_bytes": 0}}
    model = DiffoRRegressor("fast", bounds=(0, 100), **settings).fit(paths, y)
    assert (model.predict(paths) == fitted.predict(paths)).all()


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


def test_a_model_that_knows_its_network_takes_no_other(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="knows its encoder"):
        diffor.load(tmp_path / "model", encoder=Brightness())


# Saving.


def test_a_saved_model_answers_the_same(faces, fitted, tmp_path):
    _, paths, _ = faces
    fitted.save(tmp_path / "model")
    loaded = diffor.load(tmp_path / "model")
    assert (loaded.predict(paths) == fitted.predict(paths)).all()
    assert loaded.images_.inputs == fitted.images_.inputs
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
    with pytest.raises(BrokenImageError, match=r"(1|4)\.png must be a whole image, however: .*broken='skip'"):
        DiffoRRegressor("fast", **TINY).fit(paths, y)


@pytest.mark.parametrize("freeze", [False, True])
def test_broken_files_are_skipped_with_their_targets(damaged, weights, freeze):
    paths, y = damaged
    wild = y.copy()
    wild[[1, 4]] = 1e6  # would ruin the fit if it were still there
    skipping = TINY | {
        "image_settings": TINY["image_settings"] | {"broken": "skip"},
        "freeze_backbone": freeze,
        "encoder_weights": weights if freeze else None,
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
            "freeze_backbone is for encoders of images, however: encoder='auto'",
        ),
        ({"encoder": "plain", "image_settings": {"side": 8}}, "image_settings is for encoders of images, however"),
        ({"encoder": "resnet5"}, "or, for images, small, resnet18, .* or a network, however: encoder='resnet5'"),
        (
            {"image_settings": {"sides": 8}},
            "image_settings must be among side, .*, however: 'sides' .did you mean 'side'",
        ),
        ({"image_settings": {"broken": "hide"}}, "broken must be one of raise, skip, however: broken='hide'"),
        ({"encoder_settings": {"pool": "max"}}, "encoder_settings must be among n_channels, .*, however: 'pool'"),
        ({"freeze_backbone": True}, "a frozen network must have weights that were learned, however: weights=None"),
        ({"backbone_learning_rate": 0.0}, "backbone_learning_rate must be positive, however: .* freeze_backbone=True"),
        ({"accumulate": 0}, "accumulate must be at least 1, however: accumulate=0"),
        ({"encoder": Brightness(), "encoder_settings": None, "encoder_weights": "w.pt"}, "fill it before"),
        ({"encoder": nn.Conv2d(3, 3, 1), "encoder_settings": None}, "must say how many features it gives, however"),
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
    with pytest.raises(FileNotFoundError, match=r"weights must be a file, however: none\.pt is none"):
        DiffoRRegressor("fast", **TINY, encoder_weights="none.pt").fit(paths, y)


def test_as_many_targets_as_images(faces):
    _, paths, y = faces
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        DiffoRRegressor("fast", **TINY).fit(paths, y[:-1])


def test_keys_follow_from_what_cells_hold():
    table = pd.DataFrame({"count": [1, 2], "name": ["a", "b"]})
    same = pd.DataFrame({"count": [1.0, 2.0], "name": pd.Categorical(["a", "b"])})
    assert torch.equal(column_digests(table, 2), column_digests(same, 2))
    assert not torch.equal(column_digests(table, 2)[0], column_digests(table, 2)[1])
    assert column_digests(None, 3).shape == (3, 0)
