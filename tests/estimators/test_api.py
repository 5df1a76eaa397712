import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.training.checkpoint import CheckpointError, signed

QUICK = {"preset": "fast", "prior": None, "max_steps": 30, "random_state": 0, "verbose": 0}
ADVISED = {**QUICK, "prior": "trees"}
PAPER = {**QUICK, "preset": "paper", "max_steps": 3}
SMALL = {"n_increments": 4, "denoiser": "mlp", "width": 16, "n_layers": 1}


ROUNDING = 110 * 1e-5
"""Batches of another size may go through other matrix kernels, which round differently; the targets reach to 110."""


def make_table(n=240, seed=0):
    """Numbers, booleans, text, categories and missing values, with a target that depends on them."""
    generator = np.random.default_rng(seed)
    age = generator.uniform(18, 90, n)
    city = generator.choice(["Oslo", "Rome", "Lima"], n)
    table = pd.DataFrame(
        {
            "age": np.where(generator.random(n) < 0.1, np.nan, age),
            "member": generator.random(n) < 0.5,
            "city": np.where(generator.random(n) < 0.1, None, city),
            "size": pd.Categorical(generator.choice(["s", "m", "l"], n)),
        }
    )
    y = age + 10 * (city == "Rome") + generator.normal(0, 3, n)
    return table, np.clip(y, 0, 110)


@pytest.fixture(scope="module")
def fitted():
    table, y = make_table()
    return DiffoRRegressor(bounds=(0, 110), **ADVISED).fit(table, y)


@pytest.fixture(scope="module")
def graded():
    table, y = make_table()
    grades = np.array(["low", "mid", "high", "top"])[np.digitize(y, [40, 60, 80])]
    return DiffoRClassifier(grades=["low", "mid", "high", "top"], **ADVISED).fit(table, grades)


# --- answers ---


def test_all_answers_come_from_one_distribution(fitted):
    table, y = make_table(9, seed=1)
    distribution = fitted.predict_distribution(table)
    assert np.array_equal(fitted.predict(table), distribution.median)
    for name in ("mean", "median", "mode"):
        assert np.array_equal(fitted.predict(table, statistic=name), getattr(distribution, name))
    assert np.array_equal(fitted.predict(table, statistic=0.3), distribution.quantile([0.3])[:, 0])
    assert np.array_equal(fitted.predict_interval(table, 0.9), distribution.interval(0.9))
    assert np.array_equal(fitted.predict_proba(table, [50.0]), distribution.probabilities([50.0]))
    assert distribution.crps(y).shape == (9,)


def test_it_learns():
    table, y = make_table(600)
    model = DiffoRRegressor(**QUICK | {"max_steps": 400}).fit(table[:500], y[:500])
    error = np.abs(model.predict(table[500:]) - y[500:]).mean()
    assert error < 0.5 * np.abs(np.median(y[:500]) - y[500:]).mean()
    assert model.score(table[500:], y[500:]) > 0.5


@settings(max_examples=25, deadline=None)
@given(
    numbers=st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), min_size=1, max_size=20),
    levels=st.lists(st.floats(0, 1), min_size=2, max_size=6),
)
def test_samples_stay_inside_bounds_and_quantiles_never_cross_whatever_the_row(fitted, numbers, levels):
    table = pd.DataFrame({"age": numbers, "member": True, "city": "Nowhere", "size": "m"})
    samples = fitted.sample(table, 20)
    assert np.isfinite(samples).all()
    assert samples.min() >= 0
    assert samples.max() <= 110
    quantiles = fitted.predict_quantiles(table, sorted(levels))
    assert (np.diff(quantiles, axis=1) >= 0).all()
    low, high = fitted.predict_interval(table, 0.9).T
    assert (low <= fitted.predict(table)).all()
    assert (fitted.predict(table) <= high).all()


@settings(max_examples=15, deadline=None)
@given(numbers=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_grade_probabilities_are_proper_whatever_the_row(graded, numbers):
    table = pd.DataFrame({"age": numbers, "member": False, "city": None, "size": "l"})
    probabilities = graded.predict_proba(table)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    cumulative = graded.predict_cumproba(table)
    assert (np.diff(cumulative, axis=1) >= 0).all()
    assert cumulative[:, -1] == pytest.approx(1)
    assert set(graded.predict(table)) <= set(graded.classes_)


# --- reproducibility ---


def test_one_random_state_gives_one_model_and_one_answer_bit_for_bit():
    table, y = make_table()
    first, second = (DiffoRRegressor(**ADVISED).fit(table, y).sample(table, 9) for _ in range(2))
    assert np.array_equal(first, second)
    other = DiffoRRegressor(**QUICK | {"random_state": 1}).fit(table, y).sample(table, 9)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n_samples", [1, 16])
def test_answers_do_not_depend_on_the_rows_beside_them(fitted, n_samples, monkeypatch):
    table = make_table(50, seed=3)[0]
    whole = fitted.sample(table, n_samples)
    alone = np.concatenate([fitted.sample(table.iloc[[row]], n_samples) for row in range(0, 50, 7)])
    assert alone == pytest.approx(whole[::7], abs=ROUNDING)
    order = np.random.default_rng(0).permutation(50)
    assert fitted.sample(table.iloc[order], n_samples) == pytest.approx(whole[order], abs=ROUNDING)
    monkeypatch.setattr("diffor.training.loop.PREDICT_ROWS", 64)
    monkeypatch.setattr("diffor.estimators.rows.BLOCK_ROWS", 13)
    assert fitted.sample(table, n_samples) == pytest.approx(whole, abs=ROUNDING)


def test_answers_without_samples_are_refused(fitted):
    with pytest.raises(ValueError, match="the number of samples must be at least 1, but got 0"):
        fitted.sample(make_table(2)[0], 0)


def test_no_two_samples_of_a_row_are_copies(fitted):
    samples = fitted.sample(make_table(40, seed=4)[0], 200)
    for row in samples:
        inside = row[(row > 0) & (row < 110)]
        # Single precision may round two of 200 draws to one value; a repeated draw would halve them.
        assert len(np.unique(inside)) >= 0.98 * len(inside)


def test_samples_of_different_rows_are_independent(fitted):
    """Sums over rows, such as a total, need draws that do not move together."""
    samples = fitted.sample(make_table(60, seed=5)[0], 200)
    centred = samples - samples.mean(axis=1, keepdims=True)
    correlation = np.corrcoef(centred) - np.eye(60)
    assert np.abs(correlation).mean() < 0.1


# --- inputs ---


def test_numpy_pandas_polars_and_arrow_give_the_same_answer():
    table, y = make_table()
    table = table[["age", "member"]].astype(float)
    frames = [table, pl.from_pandas(table), pl.from_pandas(table).to_arrow(), table.to_numpy()]
    answers = [DiffoRRegressor(**QUICK).fit(frame, y).predict(frame) for frame in frames]
    assert all(np.array_equal(answers[0], answer) for answer in answers[1:])


def test_weights_steer_the_fit():
    X = np.zeros((400, 1)) + np.random.default_rng(0).normal(0, 1e-3, (400, 1))
    y = np.repeat([0.0, 1.0], 200)
    light = DiffoRRegressor(**QUICK).fit(X, y, sample_weight=np.where(y == 0, 1.0, 0.05))
    heavy = DiffoRRegressor(**QUICK).fit(X, y, sample_weight=np.where(y == 0, 0.05, 1.0))
    assert light.predict(X, statistic="mean").mean() < 0.3
    assert heavy.predict(X, statistic="mean").mean() > 0.7


def test_validation_rows_may_be_given():
    table, y = make_table()
    model = DiffoRRegressor(**QUICK).fit(table[:200], y[:200], X_val=table[200:], y_val=y[200:])
    assert model.history_.best_score is not None
    with pytest.raises(ValueError, match="only X_val was given; pass y_val too"):
        DiffoRRegressor(**QUICK).fit(table, y, X_val=table)
    with pytest.raises(ValueError, match="y_val must not contain NaN, but 1 of 40"):
        DiffoRRegressor(**QUICK).fit(table[:200], y[:200], X_val=table[200:], y_val=np.r_[np.nan, y[201:]])


def test_very_few_rows_can_be_fitted():
    model = DiffoRRegressor(**QUICK).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
    assert model.predict([[1.5]]).shape == (1,)
    assert model.history_.best_score is None


# --- settings ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "acurate"}, "preset must be one of .* \\(did you mean 'accurate'"),
        ({"n_folds": 1}, "n_folds must be auto or a whole number from 2 to .*, but got n_folds=1"),
        ({"n_increments": 0}, "n_increments must be auto or a whole number from 1 to .*, but got n_increments=0"),
        ({"prior": "tress"}, "tress"),
        (PAPER | {"prior": "trees"}, "prior is for the method 'diffor', but got method='diffor-paper'; leave it out"),
        (PAPER | {"n_increments": 4}, "the paper's increments are a setting of its method, but n_increments is"),
        (PAPER | {"method_settings": {"heads": 3}}, "method_settings of 'diffor-paper' must be among n_increments"),
        (PAPER | {"method_settings": {"n_attention_heads": -1}}, "got n_attention_heads=-1; .* multiple of n_att"),
        (PAPER | {"method_settings": {"increment_weight": float("nan")}}, "increment_weight must be at least 0, .*nan"),
        (PAPER | {"method_settings": {"process": "magic"}}, "process must be one of diffusion, flow_matching"),
        (PAPER | {"method_settings": {"denoiser": "cnn"}}, "denoiser must be one of scale_heads, transformer, mlp"),
        ({"encoder": "convnet"}, "encoder must be auto or .*plain, .* or for images small, .*, but got .*'convnet'"),
    ],
)
def test_wrong_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DiffoRRegressor(**QUICK | arguments).fit(*make_table())


@pytest.mark.parametrize("preset", ["fast", "balanced", "accurate", "paper"])
def test_every_preset_fits(preset):
    table, y = make_table(60)
    model = DiffoRRegressor(**QUICK | {"preset": preset, "max_steps": 2, "prior": "auto"}).fit(table, y)
    assert np.isfinite(model.predict(table.head())).all()


def test_the_paper_preset_is_the_paper_to_the_letter():
    model = DiffoRRegressor(**PAPER).fit(*make_table(60))
    settings, method = model.settings_, model.ensemble_.models[0].method
    assert (settings.learning_rate, settings.n_samples, settings.method_settings) == (5e-4, 1, {})
    assert (settings.ema, settings.decay, settings.warmup_share, settings.weight_decay) == (0.0, False, 0.0, 0.0)
    assert (settings.gradient_clip, settings.n_members) == (float("inf"), 1)
    assert (method.increment_weight, method.n_increments, method.aligned_share) == (10.0, 8, 0.5)
    assert (method.process.parameterization, method.decoding) == ("noise", "heads")
    assert (method.objective, method.n_draws) == ("full", 1)
    assert model.encoders_ == ["plain"]
    layers = method.denoiser.layers
    assert len(layers) == 2
    assert layers[0].attention.query.shape[0] == 8


@pytest.mark.parametrize(
    "ablation",
    [
        {"n_increments": 1, "spacing": "shared"},
        {"denoiser": "transformer", "width": 16, "n_attention_heads": 2},
        {"process": "flow_matching", "parameterization": "velocity"},
        {"decoding": "fusion"},
        {"parameterization": "clean", "spacing": "log", "objective": "one_call", "eta": 1.0},
    ],
)
def test_ablations_of_the_paper_are_settings_of_its_method(ablation):
    table, y = make_table(100)
    model = DiffoRRegressor(**PAPER, method_settings=SMALL | ablation).fit(table, y)
    assert model.settings_.method_settings == SMALL | ablation
    assert model.ensemble_.models[0].method.n_increments == (SMALL | ablation)["n_increments"]
    assert np.isfinite(model.predict(table)).all()


def test_fusion_without_validation_rows_is_refused():
    with pytest.raises(ValueError, match="decoding='fusion' fits its weights on validation rows, but"):
        DiffoRRegressor(method_settings={"decoding": "fusion"}, validation_fraction=0.0, **PAPER).fit(*make_table())


def test_a_time_limit_ends_the_fit():
    model = DiffoRRegressor(**QUICK | {"max_steps": 10**6}, time_limit=0.5).fit(*make_table())
    assert model.history_.stopped == "time limit"
    assert model.history_.seconds < 10


# --- grades ---


def test_ordered_categories_bring_their_order_and_their_unused_grades():
    table, y = make_table()
    grades = pd.Series(pd.cut(y, [-1, 40, 70, 111], labels=["small", "big", "huge"]))
    grades = grades.cat.add_categories("vast")
    model = DiffoRClassifier(**QUICK).fit(table, grades)
    assert model.grades_.tolist() == ["small", "big", "huge", "vast"]
    assert set(model.predict(table)) <= {"small", "big", "huge", "vast"}


def test_integers_are_ordered_by_size_and_text_with_a_warning():
    table, y = make_table()
    assert DiffoRClassifier(**QUICK).fit(table, (y // 30).astype(int) * 10).classes_.tolist() == [0, 10, 20, 30]
    with pytest.warns(UserWarning, match=r"taken from sorting: \['high', 'low', 'mid'\]; pass grades="):
        DiffoRClassifier(**QUICK).fit(table, np.array(["low", "mid", "high"])[np.digitize(y, [40, 70])])


def test_decisions_follow_the_probabilities(graded):
    table = make_table(50, seed=8)[0]
    probabilities = graded.predict_proba(table)[:, np.searchsorted(graded.classes_, graded.grades_)]
    codes = np.arange(4)
    assert np.array_equal(graded.predict(table, "mode"), graded.grades_[probabilities.argmax(axis=1)])
    centre, factor = graded.scale_.spread
    assert factor > 1
    expected = np.clip(np.rint(centre + factor * (probabilities @ codes - centre)), 0, 3).astype(int)
    assert np.array_equal(graded.predict(table, "qwk"), graded.grades_[expected])
    loss = np.abs(codes[:, None] - codes) @ probabilities.T  # expected distance of each answer
    chosen = [graded.grades_.tolist().index(grade) for grade in graded.predict(table)]
    assert loss[chosen, np.arange(50)] == pytest.approx(loss.min(axis=0))


def test_wrong_grades_are_named():
    table, y = make_table()
    codes = (y // 30).astype(int)
    with pytest.raises(ValueError, match=r"2[0-9]* of 240 values are none of \[0, 1\] \(row .*list them in grades"):
        DiffoRClassifier(grades=[0, 1], **QUICK).fit(table, codes)
    with pytest.raises(ValueError, match="grades must list each grade once, lowest first"):
        DiffoRClassifier(grades=[0, 1, 1], **QUICK).fit(table, codes)
    with pytest.raises(ValueError, match="decision must be one of median, mode, qwk, native, but got decision='mean'"):
        DiffoRClassifier(decision="mean", **QUICK).fit(table, codes)
    with pytest.raises(ValueError, match="no NaN or inf, but 1 of 240"):
        DiffoRClassifier(**QUICK).fit(table, np.where(np.arange(240) == 5, np.nan, codes))


def test_one_grade_only_is_predicted():
    table, _ = make_table(60)
    model = DiffoRClassifier(**QUICK).fit(table, np.full(60, 4))
    assert (model.predict(table) == 4).all()
    assert (model.predict_proba(table) == 1).all()


# --- scikit-learn ---


def test_pipelines_grid_search_and_clone_work():
    table, y = make_table(150)
    X = table[["age", "member"]].fillna(50).astype(float)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), DiffoRRegressor(**QUICK))
    search = GridSearchCV(pipeline, {"difforregressor__n_increments": [2, 4]}, cv=2).fit(X, y)
    assert search.best_params_["difforregressor__n_increments"] in (2, 4)
    inner = search.best_estimator_[-1]
    assert inner.feature_names_in_.tolist() == ["age", "member"]
    assert clone(inner).get_params() == inner.get_params()
    assert not hasattr(inner, "transform")


def test_weights_are_routed_through_a_grid_search():
    table, y = make_table(150)
    X = table[["age"]].fillna(50)
    with sklearn.config_context(enable_metadata_routing=True):
        model = DiffoRRegressor(**QUICK).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"n_increments": [2, 4]}, cv=2, error_score="raise")
        search.fit(X, y, sample_weight=np.linspace(0.1, 1, 150))
    assert np.isfinite(search.best_score_)


# --- saving ---


def test_saved_and_loaded_in_a_new_process_it_predicts_the_same(fitted, tmp_path):
    table = make_table(12, seed=9)[0]
    fitted.save(tmp_path / "model")
    table.to_pickle(tmp_path / "table.pkl")
    script = (
        "import sys, torch, numpy as np, pandas as pd, diffor; torch.set_num_threads(1);"
        "print(diffor.load(sys.argv[1]).sample(pd.read_pickle(sys.argv[2]), 5).tobytes().hex())"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model"), str(tmp_path / "table.pkl")]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert out == fitted.sample(table, 5).tobytes().hex()


@pytest.mark.parametrize(
    "arguments",
    [{"prior": "trees"}, {"prior": ("process", "process-ranks")},
     {"n_folds": 3, "n_increments": 5}, {"preset": "paper"}, {"preset": "balanced"},
     {"preset": "paper", "method_settings": {"decoding": "fusion", **SMALL}}, {"encoder": "plain"}],
)  # fmt: skip
def test_settings_and_state_survive_saving(tmp_path, arguments):
    table, y = make_table(100)
    model = DiffoRRegressor(**QUICK | {"max_steps": 5} | arguments).fit(table, y)
    model.save(tmp_path / "model")
    again = DiffoRRegressor.load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert again.settings_ == model.settings_
    assert again.history_ == model.history_
    assert again.feature_names_in_.tolist() == table.columns.tolist()
    assert np.array_equal(again.sample(table, 3), model.sample(table, 3))


def test_pickle_works_and_no_training_row_is_kept(tmp_path):
    table, y = make_table()
    table["secret"] = np.random.default_rng(0).uniform(0, 1, len(table))
    model = DiffoRRegressor(**ADVISED).fit(table, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(table), model.predict(table))
    model.save(tmp_path / "model")
    content = b"".join(file.read_bytes() for file in (tmp_path / "model").iterdir()) + pickle.dumps(model)
    for value in table["secret"].iloc[10:20]:
        assert repr(value).encode() not in content
        assert np.float64(value).tobytes() not in content
        assert np.float32(value).tobytes() not in content


def test_loading_names_what_does_not_fit(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"holds a DiffoRRegressor, not a DiffoRClassifier: use diffor\.load"):
        DiffoRClassifier.load(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for change, message in [
        ({"core": config["core"] | {"kinds": []}}, "the weights hold what no network has: kinds."),
        ({"estimator": "os.system"}, "holds an unknown estimator, 'os.system'"),
        ({"columns": "nonsense"}, "columns must be a list of 0 to 100000000 values, but is 'nonsense'; it was damaged"),
    ]:
        (tmp_path / "model" / "config.json").write_text(json.dumps(signed(config | change)))
        with pytest.raises(CheckpointError, match=re.escape(message)):
            diffor.load(tmp_path / "model")


def test_a_model_of_a_gpu_loads_where_there_is_none(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["params"]["device"] = "cuda:0"
    (tmp_path / "model" / "config.json").write_text(json.dumps(signed(config)))
    assert diffor.load(tmp_path / "model").predict(make_table(3)[0]).shape == (3,)


def test_saving_before_fitting_is_refused(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        DiffoRRegressor().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_checkpoints_refuse_other_data(tmp_path):
    table, y = make_table()
    DiffoRRegressor(checkpoint_dir=tmp_path, **QUICK).fit(table, y)
    with pytest.raises(CheckpointError, match="other data or settings"):
        DiffoRRegressor(checkpoint_dir=tmp_path, **QUICK).fit(table, y[::-1])
