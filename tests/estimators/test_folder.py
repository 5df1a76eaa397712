"""Folders of strangers: nothing of them runs, grows, or survives that is none of the model's; each fault is named."""

import json
import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.estimators.folder import state_of
from diffor.files.schema import MisfitError
from diffor.methods import METHODS
from diffor.training.checkpoint import CONFIG, WEIGHTS, CheckpointError, save_folder, signed, unpack

QUICK = {"max_steps": 2, "evaluate_every": 1, "random_state": 0, "verbose": 0}


def make_rows(n=60):
    draw = np.random.default_rng(0)
    size = draw.uniform(0, 10, n)
    return pd.DataFrame({"size": size, "city": draw.choice(["Oslo", "Rome"], n)}), size + draw.normal(0, 0.1, n)


@pytest.fixture(scope="module")
def fitted():
    X, y = make_rows()
    return DiffoRRegressor("fast", prior=["trees", "process"], **QUICK).fit(X, y)


@pytest.fixture(scope="module")
def encoded():
    return OrdinalRegressor("cread", **QUICK).fit(*make_rows())


def change(folder, *path_and_value):
    """Change a value of the configuration and sign it again, as a forger would."""
    *path, value = path_and_value
    config = json.loads((folder / CONFIG).read_text())
    place = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (folder / CONFIG).write_text(json.dumps(signed(config)))


# --- one hash ---


def test_a_changed_configuration_is_told_by_its_digest(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / CONFIG
    config = json.loads(path.read_text())
    config["scale"]["values"][1] += 1.0
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="its config_sha256 does not belong to what it holds"):
        diffor.load(tmp_path / "model")
    path.write_text(json.dumps({name: value for name, value in config.items() if name != "config_sha256"}))
    with pytest.raises(CheckpointError, match="is not as it was saved"):
        diffor.load(tmp_path / "model")


@pytest.mark.parametrize("which", [CONFIG, WEIGHTS])
def test_parts_of_two_models_are_no_model(fitted, tmp_path, which):
    X, y = make_rows()
    fitted.save(tmp_path / "model")
    DiffoRRegressor("fast", prior=["trees", "process"], **(QUICK | {"random_state": 1})).fit(X, y).save(
        tmp_path / "other"
    )
    shutil.copy(tmp_path / "other" / which, tmp_path / "model" / which)
    with pytest.raises(CheckpointError, match="truncated, changed or swapped"):
        diffor.load(tmp_path / "model")


# --- files ---


def test_pipes_and_links_out_of_the_folder_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    content = (tmp_path / "model" / WEIGHTS).read_bytes()
    (tmp_path / "model" / WEIGHTS).unlink()
    os.mkfifo(tmp_path / "model" / WEIGHTS)
    with pytest.raises(CheckpointError, match="must be an ordinary file, but it is a pipe"):
        diffor.load(tmp_path / "model")
    (tmp_path / "model" / WEIGHTS).unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    (tmp_path / "model" / WEIGHTS).symlink_to("../elsewhere")
    with pytest.raises(CheckpointError, match=r"is a link that leads out of its folder, to .*elsewhere"):
        diffor.load(tmp_path / "model")


def test_the_hubs_cache_consists_of_links_and_is_read(fitted, tmp_path):
    cache = tmp_path / "models--me--it"
    fitted.save(cache / "snapshots" / "0a1b")
    (cache / "blobs").mkdir()
    for name in (CONFIG, WEIGHTS):
        path = cache / "snapshots" / "0a1b" / name
        path.rename(cache / "blobs" / name)
        path.symlink_to(f"../../blobs/{name}")
    X = make_rows(5)[0]
    assert np.array_equal(DiffoRRegressor.from_pretrained(cache / "snapshots" / "0a1b").predict(X), fitted.predict(X))


def test_no_code_of_a_folder_runs(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    for name in ("__init__.py", "evil.py", "conftest.py", "sitecustomize.py", "torch.py"):
        (tmp_path / "model" / name).write_text("raise SystemExit('code of a stranger ran')")
    (tmp_path / "model" / "model.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path / "model")
    assert diffor.load(tmp_path / "model").predict(make_rows(3)[0]).shape == (3,)
    assert not [name for name in set(sys.modules) - before if name in ("evil", "conftest", "sitecustomize")]


# --- what a stranger names ---


def test_paths_addresses_and_threads_of_a_stranger_do_not_survive(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    change(tmp_path / "model", "params", "checkpoint_dir", str(tmp_path / "theirs"))
    change(tmp_path / "model", "params", "encoder_weights", "/dev/zero")
    change(tmp_path / "model", "settings", "encoder_weights", "/home/them/weights.pt")
    change(tmp_path / "model", "params", "n_jobs", 1024)
    model = diffor.load(tmp_path / "model")
    assert (model.checkpoint_dir, model.log_to, model.encoder_weights) == (None, None, None)
    assert model.settings_.encoder_weights == "weights.pt"
    X, y = make_rows()
    assert np.array_equal(model.predict(X), fitted.predict(X))  # not with a thousand threads
    model.set_params(n_jobs=None).fit(X, y)
    assert not (tmp_path / "theirs").exists()
    change(tmp_path / "model", "params", "log_to", "mlflow:http://192.0.2.1/")
    with pytest.raises(CheckpointError, match=r"params\.log_to must be null, but is 'mlflow"):
        diffor.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("params", "n_jobs"), 10**9, r"params\.n_jobs must be -1 or a whole number from 1 to 1024 or null, but is 10"),
        (("params", "device"), "meta", r"params\.device must be text like .*, but is 'meta'"),
        (("params", "max_steps"), "x", r"params\.max_steps must be a whole number"),
        (("params", "unheard_of"), 1, r"params\.unheard_of is not known here; a newer DiffoR may have written it"),
        (("settings", "encoder_layers"), 10**9, r"settings\.encoder_layers must be a whole number from 0 to 1000"),
        (("settings", "n_samples"), 10**9, r"settings\.n_samples must be a whole number from 1 to 100000"),
        (("settings", "gradient_clip"), {"float": "x"}, "gradient_clip must be spelled as a dict, a tuple or a float"),
        (("core", "kinds", 0, "settings", "n_layers"), 10**9, r"core\.kinds\[0\]\.settings\.n_layers must be"),
        (("core", "kinds", 0, "settings", "n_layers"), 1000, "asks for a larger network than the weights are of"),
        (("core", "kinds", 0, "settings", "width"), 10_000, "asks for a larger network than the weights are of"),
        (("core", "kinds", 0, "settings", "width"), 97, r"must be float32 of shape \(3, \d+, 97\), but is float32 of"),
        (("core", "kinds", 0, "n_priors"), 1, r"core\.kinds\[0\]\.n_priors must be that of the priors, 2"),
        (("core", "borders", "edges", 0), 0.9, r"core\.borders\.edges must rise, but"),
        (("columns", 0, "edges"), [2.0, 1.0], r"columns\[0\]\.edges must rise, but 1\.0 follows 2\.0"),
        (("columns", 1, "levels"), ["Oslo", "Oslo"], r"columns\[1\]\.levels must name each level once"),
        (("columns", 1, "levels"), ["Oslo"], r"levels\.0 must have 1 to 4 entries, but has"),
        (("columns", 1, "name"), "size", "columns must have names of their own"),
        (("scale", "units"), [0.0, 2.0], r"scale\.units\[1\] must be a number from 0 to 1, but is 2\.0"),
        (("scale", "log_scale"), 10**400, r"scale\.log_scale must be a number from .* very many digits"),
        (("conformal",), {"scores": [2, 1], "n_rows": 2, "widest": [0, 1]}, r"conformal\.scores must rise"),
        (("history", "records"), [{"step": "x"}], r"history\.records\[0\]\.step must be a number, but is 'x'"),
        (("classes",), ["a"], "SCALES|scale"),
        (("images",), {"side": 10**9}, r"images\.(crop|side) must be"),
        (("seed",), -1, "seed must be a whole number"),
        (("held_out", "coverage_90"), 1.5, r"held_out\.coverage_90 must be a number from 0 to 1, but is 1\.5"),
        (("held_out", "crps"), 10**400, r"held_out\.crps must be a number from 0 to .*, but is a number of very many"),
        (("held_out",), {"crps": 1.0}, r"held_out\.mae must be there, but is missing"),
    ],
)  # fmt: skip
def test_values_that_no_model_has_are_named_before_anything_is_made(fitted, tmp_path, path, value, message):
    fitted.save(tmp_path / "model")
    change(tmp_path / "model", *path, value)
    with pytest.raises(CheckpointError, match=message) as caught:
        diffor.load(tmp_path / "model")
    assert str(tmp_path / "model") in str(caught.value)
    assert "copy the whole folder again, or fit the model again" in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"n_thresholds": 10_000}, {"n_layers": 5}, {"n_thresholds": 2.5}, {"n_features": 3}]
)
def test_settings_of_methods_are_those_of_their_class(encoded, tmp_path, settings):
    encoded.save(tmp_path / "model")
    change(tmp_path / "model", "settings", "method_settings", {"dict": settings})
    with pytest.raises(CheckpointError, match=r"method_settings|must be float32 of shape \(10000"):
        diffor.load(tmp_path / "model")


# --- tensors ---


def write_tensors(folder, tensors):
    config = json.loads((folder / CONFIG).read_text())
    shutil.rmtree(folder)
    del config["config_sha256"], config["weights_sha256"]
    save_folder(folder, config, tensors)


@pytest.mark.parametrize(
    ("name", "replace", "message"),
    [
        ("recalibration", lambda t: t * torch.nan, "recalibration must hold finite numbers, but some are not"),
        ("recalibration", lambda t: t.double(), r"must be float32 of shape \(3,\), but is float64"),
        ("kinds.0.out.weight", lambda t: t[:1], "kinds.0.out.weight must be float32 of shape"),
        ("prior.0.trees.place.trees.child", lambda t: t + 10**6, r"trees\.place\.trees\.child must lie from 0 to"),
        ("prior.0.trees.place.trees.child", torch.zeros_like, "must (be infinite at leaves|lead from each root)"),
        ("prior.0.trees.place.trees.feature", lambda t: t - 1, r"trees\.feature must lie from 0 to"),
        ("prior.0.trees.place.trees.limit", torch.zeros_like, "must be infinite at leaves, but is finite at some"),
        ("prior.0.trees.place.0.chosen", lambda t: t + 9, r"trees\.place\.0\.chosen must lie from 0 to 1, but reaches"),
        ("prior.0.trees.place.0.levels.0", lambda t: t[:0], "must have 1 to 5 entries, but has 0"),
        ("prior.0.trees.spread.scale", lambda t: t[:1], r"spread\.scale must be float32 of shape \(2,\)"),
        ("prior.1.process.known", lambda t: t[:0], r"process\.known must hold a row at least, but has none"),
        ("prior.1.process.slopes", lambda t: t / 0, r"process\.slopes must hold finite numbers"),
        ("prior.1.process.kernel.is_smooth", lambda t: t.float(), r"kernel\.is_smooth must be bool"),
        ("prior.1.process.target", lambda t: t.float(), r"process\.target must be float64"),
        ("prior.2.trees.start", lambda t: torch.zeros(()), "does not describe its weights|Trees"),
        ("prior.1.process.extra", lambda t: torch.zeros(()), "with its own tensors, but got prior.1.process.extra"),
        ("backbone.x", lambda t: torch.zeros(()), "backbone.x belongs to a network of images"),
        ("kinds.9.x", lambda t: torch.zeros(()), "the weights hold what no network has: kinds.9.x"),
    ],
)  # fmt: skip
def test_tensors_that_no_model_has_are_named(fitted, tmp_path, name, replace, message):
    fitted.save(tmp_path / "model")
    tensors, _ = unpack(tmp_path / "model" / WEIGHTS)
    write_tensors(tmp_path / "model", tensors)
    assert diffor.load(tmp_path / "model").predict(make_rows(3)[0]).shape == (3,)
    tensors[name] = replace(tensors.get(name)).contiguous()
    write_tensors(tmp_path / "model", tensors)
    with pytest.raises(CheckpointError, match=message):
        diffor.load(tmp_path / "model")


def test_a_model_that_cannot_answer_is_not_handed_out(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    tensors, _ = unpack(tmp_path / "model" / WEIGHTS)
    tensors["recalibration"] = torch.tensor([-3.0, 0.0, 0.0])  # finite, but probabilities would fall where they rise
    write_tensors(tmp_path / "model", tensors)
    with pytest.raises(CheckpointError, match="heights must rise from 0 to 1, but those of row 0 are"):
        diffor.load(tmp_path / "model")


# --- what is saved is loaded ---


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_back_from_its_folder(name, tmp_path):
    X, y = make_rows(30)
    kind = METHODS[name]
    side = dict.fromkeys(kind.requires, y + 20)
    model = OrdinalRegressor(name, **QUICK) if "value" in kind.tasks else OrdinalClassifier(name, **QUICK)
    target = y if "value" in kind.tasks else np.digitize(y, [3, 6])
    model.fit(X, target, **side).save(tmp_path / "model")
    again = diffor.load(tmp_path / "model")
    assert np.array_equal(again.predict(X, **side), model.predict(X, **side))


@pytest.mark.parametrize("which", ["fitted", "encoded"])
def test_loading_leaves_everybodys_random_numbers_alone(which, request, tmp_path):
    request.getfixturevalue(which).save(tmp_path / "model")
    before, seen = torch.get_rng_state(), []
    # Not even while networks are made: another thread would draw other numbers then.
    hook = register_module_parameter_registration_hook(lambda *_: seen.append(torch.get_rng_state()))
    try:
        diffor.load(tmp_path / "model")
    finally:
        hook.remove()
    assert len(seen) > 2
    assert all(torch.equal(state, before) for state in [*seen, torch.get_rng_state()])


def test_nothing_is_saved_that_would_not_be_loaded():
    X, y = make_rows()
    model = DiffoRClassifier("fast", **QUICK).fit(X, np.digitize(y, [5]))
    model.set_params(n_jobs=10**9)
    with pytest.raises(MisfitError, match=r"params\.n_jobs must be -1 or a whole number from 1 to 1024 or null, but"):
        state_of(model)
