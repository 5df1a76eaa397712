"""One contract for the whole table: what every method must do, from whatever module it comes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import method_checks
import numpy as np
import pytest
import torch
from method_checks import N_FEATURES, N_GRADES, N_ROWS
from torch import Tensor

import diffor
from diffor import OrdinalClassifier, OrdinalRegressor
from diffor.core.distribution import DistributionMethod
from diffor.core.method import Method
from diffor.core.prediction import Prediction
from diffor.methods import METHODS, baselines

DECODER = {"width": 16, "n_layers": 1, "n_heads": 4, "n_hidden": 32, "dropout": 0.0}
SMALL = {
    "card": {"n_times": 25, "width": 32, "dropout": 0.0},
    "diffor": {"n_increments": 16, "width": 32, "dropout": 0.0},
    "diffor-paper": {"n_increments": 4, "denoiser": "mlp", "width": 32, "n_layers": 1, "dropout": 0.0,
                     "schedule": "cosine", "parameterization": "velocity", "decoding": "chain"},
    "gor": {**DECODER, "max_values": 32, "n_steps": 8},
    "gr": {**DECODER, "max_values": 32, "n_steps": 8},
    "ord2seq": {**DECODER, "n_bins": 16},
    "poe": {"dropout": 0.0},
}  # fmt: skip
"""Settings with which slow methods are quick, and none hides values at random."""

OWN = ("diffor", "diffor-paper")

# What does not depend on the task is asked of each method once, of values and of grades in turn.
ONE_EACH = [(name, method.tasks[place % len(method.tasks)]) for place, (name, method) in enumerate(METHODS.items())]
# A third kind of targets, for methods of values: many are equal, and some are exactly zero as lifetime values are.
ALL_CASES = [(name, task) for name, method in METHODS.items() for task in method.tasks]
ALL_CASES += [(name, "ties") for name, method in METHODS.items() if "value" in method.tasks]
NEED_DURATION = [name for name, method in METHODS.items() if "duration" in method.requires]
DRAW_BY_ROW = ("card", "optdist")
"""Methods whose loss draws noise for one row after another, also for rows of weight zero."""
N_REPETITIONS = 120


def rows_of(kind: str) -> str:
    """The rows of ``method_checks`` on which a kind of case is checked."""
    return "value" if kind == "value" else "grades"


def duration_of(features: Tensor) -> Tensor:
    """A duration for each row: never below its target, and the same where the view reached the end."""
    return torch.sigmoid(2 * features[:, 0] - features[:, 1]) + 0.2 * features[:, 2].clamp(min=0)


class WithSideColumns(Method):
    """A method that is handed its side columns, made of the features, so that checks need not know of them."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method

    def side(self, features: Tensor) -> dict[str, Tensor]:
        return {name: duration_of(features) for name in (*self.method.requires, *self.method.accepts)}

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        return self.method.loss(features, y, weights, **self.side(features))

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        return self.method.predict(features, keys, n_samples, **self.side(features))

    def distribution(self, features: Tensor):
        return self.method.distribution(features, **self.side(features))


def make_untold(name: str, kind: str) -> WithSideColumns:
    """A method that has seen no targets."""
    torch.manual_seed(0)
    n_grades = {"n_grades": N_GRADES} if kind == "grades" and METHODS[name].takes_n_grades else {}
    return WithSideColumns(METHODS[name](N_FEATURES, **SMALL.get(name, {}), **n_grades))


def make(name: str, kind: str, moved: float = 0.0) -> WithSideColumns:
    """A method that is prepared and not yet trained, each parameter ``moved`` so far at random."""
    method = make_untold(name, kind)
    features, y = method_checks.make_rows(rows_of(kind))
    method.method.prepare(y, **method.side(features))
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(moved * torch.randn(parameter.shape))
    return method


# --- what the list of methods says ---


def test_the_table_leaves_no_method_out():
    found = pkgutil.iter_modules(baselines.__path__)
    modules = [importlib.import_module(f"{baselines.__name__}.{module.name}") for module in found]
    classes = {made for module in modules for made in vars(module).values() if inspect.isclass(made)}
    able = {made for made in classes if issubclass(made, Method) and not inspect.isabstract(made)}
    assert {made for made in able if made.title} == {method for name, method in METHODS.items() if name not in OWN}
    assert len(set(METHODS.values())) == len(METHODS)


def test_every_method_says_what_it_is_and_a_reconstruction_says_so_first():
    assert len({method.title for method in METHODS.values()}) == len(METHODS)
    for name, method in METHODS.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert method.family, name
        assert method.title, name
        assert method.paper, name
        assert method.evidence in ("code", "reimplementation", "paper", "notes", "standard"), name
        assert method.tasks, name
        assert set(method.tasks) <= {"value", "grades"}, name
        assert method.native_statistic in ("mean", "median", "mode", "own"), name
        assert {*method.requires, *method.accepts} <= {"duration"}, name
        text = method.__dict__["__doc__"]
        assert text.startswith("A reconstruction: ") == method.is_reconstruction == (method.evidence == "notes"), name
        assert not method.is_reconstruction or re.search("Known[,:].*Guessed: ", text, re.DOTALL), name


def wrong_values(setting: inspect.Parameter) -> tuple:
    """What a setting cannot be: no count, share or weight is below zero, and words come from a short list."""
    kind = str(setting.annotation)
    return (-1, float("nan")) if kind.startswith("float") else (-1,) if kind.startswith("int") else ("nonsense",)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in OWN])  # ours are checked with their own tests
def test_settings_that_make_no_sense_are_named(name):
    settings = inspect.signature(METHODS[name]).parameters.values()
    checked = [one for one in settings if one.name not in ("n_features", "n_grades") and "bool" not in str(one)]
    for setting in checked:
        for value in wrong_values(setting):
            with pytest.raises(ValueError, match=rf"(?s){setting.name}.*but .*{value}|at least 2 bins .*got {value}"):
                METHODS[name](N_FEATURES, **{setting.name: value})


# --- looking at the targets ---


@pytest.mark.parametrize(("name", "kind"), ALL_CASES)
def test_targets_of_weight_zero_are_not_looked_at(name, kind):
    weighted, removed = make_untold(name, kind), make_untold(name, kind)
    features, y = method_checks.make_rows(rows_of(kind))
    weights = torch.arange(N_ROWS) % 4 / 1.5
    kept = weights > 0
    y[~kept], features[~kept] = 1.0 - y.max() * (torch.arange(16) % 2), 9 * features[~kept]
    side = weighted.side(features)
    weighted.method.prepare(y, weights, **side)
    removed.method.prepare(y[kept], **{column: values[kept] for column, values in side.items()})
    states = weighted.state_dict(), removed.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(0), r"shape \(at least one row,\), but got \(0,\)"),
        (torch.zeros(2, 2), r"shape \(at least one row,\), but got \(2, 2\)"),
        (torch.tensor([0.0, 1.5]), r"must lie in \[0, 1\], but from 0.0 to 1.5"),
        (torch.tensor([0.0, float("nan")]), r"must lie in \[0, 1\], but from nan to nan"),
    ],
)
def test_targets_outside_the_range_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        METHODS["value-squared"](N_FEATURES).prepare(y)


@pytest.mark.parametrize(("name", "kind"), ONE_EACH)
def test_equal_targets_have_a_finite_loss_and_answer(name, kind):
    features, _ = method_checks.make_rows("value")
    for value in (0.0, 0.5, 1.0):
        method, y = make_untold(name, kind), torch.full((N_ROWS,), value)
        method.method.prepare(y, **method.side(features))
        assert torch.isfinite(method_checks.total_loss(method, features, y))
        assert np.isfinite(method_checks.predict(method, features, 4).mean).all()


# --- learning ---


@pytest.mark.parametrize(("name", "kind"), ALL_CASES)
def test_the_loss_is_finite_and_every_parameter_feels_it(name, kind):
    # At the start some feel nothing by right: a bias at the best constant, or errors whose signs add up to zero.
    method_checks.check_gradients(make(name, kind, moved=0.7), rows_of(kind))


@pytest.mark.parametrize(("name", "kind"), ONE_EACH)
def test_a_short_training_learns_64_rows(name, kind):
    method_checks.check_learning(make(name, kind), rows_of(kind))


@pytest.mark.parametrize(("name", "kind"), [case for case in ONE_EACH if case[0] != "diffor-paper"])
def test_rows_of_weight_zero_count_as_removed(name, kind):
    if name not in DRAW_BY_ROW:
        method_checks.check_weights(make(name, kind, moved=0.1), rows_of(kind))
        return
    # Noise is drawn row by row, so only the rows before those of weight zero have the same noise without them.
    method = make(name, kind, moved=0.1).eval()  # a method that counts its steps does not do so between both losses
    features, y = method_checks.make_rows(rows_of(kind))
    n_kept = 43
    weights = (torch.arange(N_ROWS) < n_kept) * (N_ROWS / n_kept)
    torch.manual_seed(1)
    weighted = method.loss(features, y, weights)
    torch.manual_seed(1)
    removed = method.loss(features[:n_kept], y[:n_kept])
    expected = {term: value.item() for term, value in removed.items()}
    assert {term: value.item() for term, value in weighted.items()} == pytest.approx(expected, rel=1e-4)


def test_the_paper_counts_rows_of_weight_zero_as_removed_on_average():
    """Its times are spread evenly over all draws of a batch, so that leaving rows out changes the noise of the others.

    What a row of weight zero holds changes nothing at all; and over many draws the loss is that without the rows.
    """
    method = make("diffor-paper", "value", moved=0.1).eval()
    features, y = method_checks.make_rows("value")
    kept = torch.arange(N_ROWS) % 2 == 0
    other = torch.where(kept, y, 1 - y)
    differences = []
    with torch.inference_mode():
        for seed in range(N_REPETITIONS):
            of_batches = []
            for batch in ((features, y, 2.0 * kept), (features, other, 2.0 * kept), (features[kept], y[kept])):
                torch.manual_seed(seed)
                of_batches.append([term.item() for term in method.loss(*batch).values()])
            assert of_batches[0] == of_batches[1]
            differences.append(np.subtract(of_batches[0], of_batches[2]))
    error = np.std(differences, axis=0) / np.sqrt(N_REPETITIONS)
    assert (np.abs(np.mean(differences, axis=0)) < 4 * error).all()


# --- predictions and distributions ---


@pytest.mark.parametrize(("name", "kind"), ALL_CASES)
def test_answers_are_proper_and_say_what_the_list_says(name, kind):
    """Samples are of their row, the cdf is proper and theirs, the native value is the named statistic."""
    method, listed = make(name, kind, moved=0.3), METHODS[name]
    method_checks.check_prediction(method, rows_of(kind))
    if issubclass(listed, DistributionMethod):
        method_checks.check_distribution(method, rows_of(kind))
    if (name, kind) not in ONE_EACH:
        return
    features, y = method_checks.make_rows(rows_of(kind))
    prediction = method_checks.predict(method, features, 20 if listed.draws_are_costly else 500)
    if listed.native_statistic != "own":
        error = np.abs(prediction.statistic("native") - prediction.statistic(listed.native_statistic)).max()
        assert error < (2e-3 if listed.native_statistic == "mean" else 0.05)  # a median may be the middle of its bin
    if issubclass(listed, DistributionMethod):
        middles = (torch.arange(2000) + 0.5) / 2000
        with torch.inference_mode():
            reached = method.distribution(features).cdf(middles[None]).double()
        integral = (reached - (y[:, None] <= middles).double()).square().mean(dim=1)
        assert np.abs(prediction.crps(y.numpy()) - integral.numpy()).max() < 2e-3


@pytest.mark.parametrize(("name", "kind"), ONE_EACH)
def test_answers_stay_in_range_whatever_was_learned(name, kind):
    method, (features, _) = make(name, kind, moved=3.0), method_checks.make_rows(rows_of(kind))
    prediction = method_checks.predict(method, features, 8)
    answers = np.column_stack([prediction.samples, prediction.statistic("native")])
    assert ((answers >= 0) & (answers <= 1)).all()
    if issubclass(METHODS[name], DistributionMethod):
        with torch.inference_mode():
            reached = method.distribution(features).cdf(torch.tensor([[-1e9, -1.0, -1e-30, 0.0, 1.0, 1e9]]))
        assert (reached[:, :3] == 0).all()
        assert ((reached[:, 3] >= 0) & (reached[:, 3] <= 1)).all()
        assert torch.allclose(reached[:, 4:], torch.ones(N_ROWS, 2), atol=1e-6)


@pytest.mark.parametrize(("name", "kind"), ONE_EACH)
def test_neither_answers_nor_losses_of_other_rows_change_what_was_fitted(name, kind):
    method = make(name, kind)
    method_checks.total_loss(method, *method_checks.make_rows(rows_of(kind)))  # running averages have begun
    before = {key: value.clone() for key, value in method.state_dict().items()}
    features, y = method_checks.make_rows(rows_of(kind), seed=7)
    method_checks.predict(method, 5 * features)
    with torch.inference_mode():
        method.loss(5 * features, y)
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if {*one.requires, *one.accepts}])
def test_durations_beyond_the_training_range(name):
    method = make(name, "value")
    features, _ = method_checks.make_rows("value")
    longest = duration_of(features).max().item()
    near, far, short = method_checks.native(
        method.method, features[:1].expand(3, -1), duration=torch.tensor([longest, 50 * longest, 1e-5])
    )
    assert near == far
    assert 0 <= short <= (1e-4 if "swat" in name else 1)


# --- the same through the estimators ---

QUICK = {"preset": "fast", "encoder": "plain", "n_members": 1, "max_steps": 4, "verbose": 0}
Columns = dict[str, np.ndarray]


def make_table(name: str, task: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Columns]:
    """Rows, targets from 0 to 100 or grades, and the side columns that the method takes."""
    features, y = method_checks.make_rows(task, seed)
    side = (*METHODS[name].requires, *METHODS[name].accepts)
    target = 100 * y.double() if task == "value" else (y * (N_GRADES - 1)).round().int()
    return features.numpy(), target.numpy(), {column: 100 * duration_of(features).numpy() for column in side}


def fit(name: str, task: str, n_weightless: int = 0):
    """An estimator after a few steps; rows of weight zero, if there are any, are unlike all others."""
    X, y, side = make_table(name, task)
    X_val, y_val, side_val = make_table(name, task, seed=1)
    own = {"method_settings": SMALL.get(name)}
    if task == "value":
        model = OrdinalRegressor(name, bounds=(0, 100), random_state=0, **own, **QUICK)
    else:
        model = OrdinalClassifier(name, grades=list(range(N_GRADES)), random_state=0, **own, **QUICK)
    weights = np.r_[np.ones(N_ROWS), np.zeros(n_weightless)]
    odd = np.arange(n_weightless)
    X, y = np.r_[X, 10 * X[odd]], np.r_[y, np.full(n_weightless, y.max())]
    side = {column: np.r_[values, 3 * values[odd]] for column, values in side.items()}
    side |= {f"{column}_val": values for column, values in side_val.items()}
    return model.fit(X, y, sample_weight=weights, X_val=X_val, y_val=y_val, **side)


def answers(model, name: str, task: str) -> np.ndarray:
    """Samples and native values."""
    X, _, side = make_table(name, task)
    prediction = model.predict_distribution(X, 12, **side)
    return np.column_stack([prediction.samples, prediction.statistic("native")])


@pytest.mark.parametrize(("name", "task"), ONE_EACH)
def test_one_seed_gives_one_model_which_no_answer_changes_and_saving_keeps(name, task, tmp_path):
    model = fit(name, task)
    first = answers(model, name, task)
    assert np.ptp(first) > 0
    before = {key: value.clone() for key, value in model.model_.state_dict().items()}
    fitted = model.inputs_.to_json(), model.scale_.to_json()
    X, _, side = make_table(name, task, seed=9)
    model.predict(50 * X, **{column: 2 * values for column, values in side.items()})
    model.predict_proba(-50 * X, **side)
    state = model.model_.state_dict()
    assert state.keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in state.items())
    assert (model.inputs_.to_json(), model.scale_.to_json()) == fitted
    assert (answers(model, name, task) == first).all()
    model.save(tmp_path / "model")
    loaded = diffor.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.settings_ == model.settings_
    assert (answers(loaded, name, task) == first).all()
    assert (answers(fit(name, task), name, task) == first).all()
    # What is learned of targets knows no rows of weight 0; normalisation of batches follows the columns' network.
    learned, expected = (
        {key: value for key, value in of.model_.named_buffers() if ".norm." not in key}
        for of in (fit(name, task, n_weightless=9), model)
    )
    assert learned.keys() == expected.keys()
    assert all(torch.equal(value, expected[key]) for key, value in learned.items())


@pytest.mark.parametrize("name", NEED_DURATION)
def test_a_missing_duration_is_named(name):
    X, y, _ = make_table(name, "value")
    message = (
        f"method '{name}' needs the column 'duration', but it is not given; "
        "pass duration=... beside X, in fit and in predict"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        OrdinalRegressor(name, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match=re.escape(message)):
        fit(name, "value").predict(X)
    features, targets = method_checks.make_rows("value")
    own_message = f"{METHODS[name].title} needs the column 'duration' beside features and targets, but no column"
    for ask in (
        lambda: METHODS[name](N_FEATURES).prepare(targets),
        lambda: make(name, "value").method.loss(features, targets),
        lambda: method_checks.predict(make(name, "value").method, features),
    ):
        with pytest.raises(ValueError, match=re.escape(own_message)):
            ask()
