"""Cross-fitting: who is held out from whom, and what held-out answers decide."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from diffor import DiffoRRegressor
from diffor.encoders import TabularInputs
from diffor.encoders.tabular.fold_networks import FoldNetworks
from diffor.estimators.cross_fitted import recalibrated, spread_of
from diffor.estimators.cross_fitting import Table, choose_held, count_increments, prior_folds
from diffor.estimators.held_out import (
    FoldBatches,
    HeldOutScore,
    answer_held,
    fit_calibration,
    hold_out,
    stack_priors,
    weigh_kinds,
)
from diffor.methods.diffor.borders import Borders
from diffor.methods.diffor.one_call import as_prediction
from diffor.training.batches import Rows


def make_rows(n: int, weights: torch.Tensor | None = None) -> Rows:
    y = torch.rand(n, generator=torch.Generator().manual_seed(0))
    codes = torch.zeros(n, 0, dtype=torch.int64)
    return Rows((torch.arange(n, dtype=torch.float32)[:, None], codes), y, weights, torch.zeros(n, dtype=torch.int64))


# --- who is held out ---


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 200), st.integers(2, 8), st.integers(0, 1000))
def test_every_row_is_held_out_once_and_learned_from_otherwise(n: int, n_folds: int, seed: int) -> None:
    held = hold_out(n, n_folds, seed)
    assert (held.sum(axis=0) == 1).all()
    batches = FoldBatches(make_rows(n), held, batch_size=4, seed=seed)
    for network in range(n_folds):
        epoch = len(batches.learned[network]) // batches.batch
        seen = np.concatenate([batches.block(step, network) for step in range(epoch)])
        assert not held[network, seen].any()
        assert len(np.unique(seen)) == len(seen), "an epoch shows no row twice"


def test_groups_are_held_out_whole_and_evenly() -> None:
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    held = hold_out(len(groups), 4, 0, groups)
    for group in range(20):
        assert len(np.unique(held[:, groups == group].argmax(axis=0))) == 1
    sizes = held.sum(axis=1)
    assert sizes.max() - sizes.min() <= 20


def test_a_step_depends_on_its_number_only() -> None:
    data, held = make_rows(50), hold_out(50, 3, 0)
    one, two = (FoldBatches(data, held, 8, seed=1) for _ in range(2))
    for step in (0, 1, 40):
        one.block(step, 0)
    assert np.array_equal(one.block(17, 1), two.block(17, 1))


def table_of(n: int, valid: int = 0, groups: np.ndarray | None = None) -> Table:
    return Table(TabularInputs(), make_rows(n), None, make_rows(valid) if valid else None, groups=groups)


@pytest.mark.parametrize(("n", "networks", "held"), [(5, 1, 0), (1_000, 5, 1_000), (10_000, 3, 10_000),
                                                     (30_000, 2, 30_000), (60_000, 1, 5_000)])  # fmt: skip
def test_folds_fall_with_the_number_of_rows(n: int, networks: int, held: int) -> None:
    chosen = choose_held(table_of(n), "auto", 0)
    assert chosen.shape == (networks, n)
    assert chosen.any(axis=0).sum() == held


def test_validation_rows_of_the_users_own_are_held_out_by_all() -> None:
    chosen = choose_held(table_of(30, valid=7), "auto", 0)
    assert not chosen[:, :30].any()
    assert chosen[:, 30:].all()


def test_more_folds_than_rows_or_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="n_folds must be at most the number of rows, 6, but got n_folds=9"):
        choose_held(table_of(6), 9, 0)
    with pytest.raises(ValueError, match="number of groups, 2, but got n_folds=3"):
        choose_held(table_of(6, groups=np.array([0, 0, 0, 1, 1, 1])), 3, 0)


def test_priors_are_held_out_with_the_networks_where_each_row_is() -> None:
    held = hold_out(40, 4, 0)
    assert np.array_equal(prior_folds(held, 0), held.argmax(axis=0))
    assert set(prior_folds(held[:1], 0)) == {0, 1, 2}


# --- what held-out answers decide ---


def score_of(survival_of: torch.Tensor, n: int = 400) -> tuple[Borders, HeldOutScore]:
    data = make_rows(n)
    borders = Borders.even(len(survival_of))
    return borders, HeldOutScore.of_rows(data, borders, np.ones((1, n), dtype=bool))


def test_rows_are_answered_by_networks_that_have_not_seen_them() -> None:
    torch.manual_seed(0)
    networks = FoldNetworks(3, [[0.0, 30.0]], [], torch.linspace(0.1, 0.9, 5), []).eval()
    torch.nn.init.normal_(networks.direct.weight)
    data, held = make_rows(31), hold_out(31, 3, 1)
    answers = answer_held(networks, data.inputs, held)
    everything = torch.sigmoid(networks(data.inputs)).cummin(dim=2).values
    for row in range(31):
        assert torch.allclose(answers[row], everything[held[:, row].argmax(), row], atol=1e-5)
    assert answer_held(networks, data.inputs, np.zeros((3, 31), dtype=bool) | (np.arange(31) == 4))[5].isnan().all()


def test_the_score_is_the_crps_of_a_step_function_and_ignores_rows_of_weight_zero() -> None:
    y = torch.tensor([0.0, 0.5, 1.0, 0.5])
    borders = Borders.at_values([0.0, 0.5, 1.0])
    data = Rows((torch.zeros(4, 1), torch.zeros(4, 0)), y, torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.zeros(4))
    score = HeldOutScore.of_rows(data, borders, np.ones((1, 4), dtype=bool), unit=2.0)
    survival = torch.tensor([[0.5, 0.25]]).expand(4, 2)
    exact = [0.25 + 0.0625, 0.25 + 0.0625, 0.25 + 0.5625]  # grades 0, 1, 2 of width 1 each
    assert score.of(survival) == pytest.approx(np.mean(exact))


def test_priors_are_stacked_by_their_crps_where_many_rows_tell() -> None:
    draw = torch.Generator().manual_seed(0)
    truth = (torch.rand(20_000, 1, generator=draw) < 0.5).float()
    told = torch.where(truth > 0, 1.0, -1.0) * torch.tensor([1.0, 0.0])  # the second prior knows nothing ...
    said = told[:, :, None] + torch.tensor([0.0, 2.0])[:, None] * torch.randn(20_000, 2, 1, generator=draw)
    weak, noisy = stack_priors(said, truth, np.ones(1))
    assert weak > 3  # ... and the first is always right, but not sure enough of it
    assert abs(noisy) < 0.1


def test_few_rows_stack_priors_by_the_rule_that_the_better_count_more() -> None:
    said, truth = torch.tensor([[[1.0], [0.5]], [[-1.0], [-0.5]]]), torch.tensor([[1.0], [0.0]])
    factors = stack_priors(said, truth, np.ones(1))
    assert factors[0] > factors[1] > 0
    assert sum(factors) == pytest.approx(1.1, abs=0.05)


def test_a_row_of_weight_two_stacks_as_two_rows() -> None:
    draw = torch.Generator().manual_seed(0)
    said, truth = torch.randn(9, 2, 4, generator=draw), torch.rand(9, 4, generator=draw)
    weights = torch.tensor([2.0, *[1.0] * 8])
    twice = stack_priors(torch.cat([said[:1], said]), torch.cat([truth[:1], truth]), np.ones(4))
    assert stack_priors(said, truth, np.ones(4), weights) == pytest.approx(twice, rel=1e-6)


def test_a_kind_that_knows_nothing_loses_its_weight() -> None:
    _, score = score_of(torch.zeros(16))
    good = (score.filled + 0.05 * torch.randn(score.filled.shape)).clamp(0, 1)
    noise = torch.rand(score.filled.shape)
    weights = weigh_kinds([good, noise], score)
    assert weights[0] > 0.97
    assert weights.sum() == pytest.approx(1)
    assert weigh_kinds([good, good], score) == pytest.approx([0.5, 0.5])


def test_two_kinds_that_err_in_different_places_share_the_weight() -> None:
    _, score = score_of(torch.zeros(16))
    noise = torch.randn(2, *score.filled.shape) * 0.2
    weights = weigh_kinds([score.filled + noise[0], score.filled + noise[1]], score)
    assert weights == pytest.approx([0.5, 0.5], abs=0.05)


def draw_logistic(n: int, scale: np.ndarray | float) -> tuple[Borders, torch.Tensor, torch.Tensor]:
    """Borders, truths, and the logits of the survival functions that these are drawn from."""
    draw, borders = np.random.default_rng(0), Borders.even(64)
    centre, scale = draw.uniform(0.3, 0.7, size=n), np.broadcast_to(scale, n)
    y = (centre + scale * logit(draw.uniform(1e-3, 1 - 1e-3, size=n))).clip(0, 1)
    middles = (borders.layout.lower + borders.layout.upper) / 2
    return borders, torch.from_numpy(y), torch.from_numpy((centre[:, None] - middles) / scale[:, None])


def share_held(borders: Borders, survival: torch.Tensor, y: torch.Tensor, coverage: float) -> float:
    low, high = as_prediction(borders, survival).interval(coverage).T
    return float(((low <= y.numpy()) & (y.numpy() <= high)).mean())


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_calibration_undoes_what_was_too_sure_or_too_unsure(power: float) -> None:
    borders, y, logits = draw_logistic(4000, 0.04)
    said, widths = torch.sigmoid(logits * power), torch.from_numpy(borders.widths)
    found = torch.from_numpy(fit_calibration(borders, said, y))
    slope = found[0] * spread_of(said, widths).median() ** found[2]
    assert float(slope) == pytest.approx(1 / power, rel=0.1)
    moved = recalibrated(said, found, widths)
    for coverage in (0.5, 0.9):
        assert share_held(borders, moved, y, coverage) == pytest.approx(coverage, abs=0.02)


def test_calibration_undoes_spreads_that_are_too_much_alike() -> None:
    """Answers are too unsure where little and too sure where much can happen."""
    scale = np.repeat([0.02, 0.06], 3000)
    borders, y, logits = draw_logistic(6000, scale)
    said = torch.sigmoid(logits * torch.from_numpy(scale / np.sqrt(scale * 0.035))[:, None])
    moved = recalibrated(said, torch.from_numpy(fit_calibration(borders, said, y)), torch.from_numpy(borders.widths))
    for rows in (slice(0, 3000), slice(3000, 6000)):
        assert abs(share_held(borders, said[rows], y[rows], 0.9) - 0.9) > 0.03
        assert share_held(borders, moved[rows], y[rows], 0.9) == pytest.approx(0.9, abs=0.02)


def test_calibration_of_values_that_repeat_counts_their_probabilities() -> None:
    """Truths are one of three values, drawn from what was said after its logits were halved."""
    draw, values = np.random.default_rng(1), np.array([0.0, 0.4, 1.0])
    borders = Borders.at_values(values)
    logits = np.sort(draw.normal(size=(6000, 2)), axis=1)[:, ::-1]
    y = torch.from_numpy(values[(draw.random(6000)[:, None] < expit(logits)).sum(axis=1)])
    said = torch.from_numpy(expit(2 * logits))
    moved = recalibrated(said, torch.from_numpy(fit_calibration(borders, said, y)), torch.from_numpy(borders.widths))
    assert np.abs(moved.numpy() - expit(logits)).mean() < 0.03
    assert np.abs(said.numpy() - expit(logits)).mean() > 0.1


def test_calibration_leaves_out_rows_without_weight_or_answer() -> None:
    draw, borders = np.random.default_rng(2), Borders.even(16)
    survival = torch.from_numpy(np.sort(draw.random((200, 16)), axis=1)[:, ::-1].copy())
    y, weights = torch.from_numpy(draw.random(200)), torch.from_numpy((draw.random(200) < 0.7).astype(float))
    kept = weights > 0
    expected = fit_calibration(borders, survival[kept], y[kept])
    assert np.array_equal(fit_calibration(borders, survival, y, weights), expected)
    survival[~kept] = torch.nan
    assert np.array_equal(fit_calibration(borders, survival, y), expected)
    assert fit_calibration(borders, survival[~kept], y[~kept]).tolist() == [1, 0, 0]


def test_a_row_of_weight_two_calibrates_as_two_rows() -> None:
    borders, y, logits = draw_logistic(200, 0.04)
    said, weights = torch.sigmoid(logits * 0.7), torch.ones(200).double()
    weights[:60] = 2
    twice = torch.cat([torch.arange(200), torch.arange(60)])
    expected = fit_calibration(borders, said[twice], y[twice])
    assert fit_calibration(borders, said, y, weights) == pytest.approx(expected, abs=1e-3)


def test_calibration_keeps_the_order_within_survival_functions() -> None:
    survival = torch.rand(10, 20).sort(dim=1, descending=True).values
    moved = recalibrated(survival, torch.tensor([0.6, 0.3, -0.5]), torch.full((20,), 0.05))
    assert (moved.diff(dim=1) <= 0).all()


def test_intervals_are_narrower_than_the_priors_error() -> None:
    coordinate = np.linspace(0, 1, 200)
    for error, count in ((0.3, 64), (0.02, 150), (1e-4, 256)):
        assert count_increments(coordinate[:, None] + error, coordinate) == count
    assert count_increments(np.zeros((200, 0)), coordinate) == 64


# --- whole fits ---


def smooth(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(seed)
    X = pd.DataFrame(draw.normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, 10 + 2 * X["a"].to_numpy() + draw.normal(size=n)


def quick(**settings: object) -> DiffoRRegressor:
    return DiffoRRegressor("fast", max_steps=50, random_state=0, verbose=0, **settings)


class Memory:
    """A regressor that knows every row that it has seen by heart, and nothing else."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        return {}

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Memory:
        self.known, self.y = X.to_numpy(), np.asarray(y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        distances = ((X.to_numpy()[:, None] - self.known[None]) ** 2).sum(axis=2)
        return np.where(distances.min(axis=1) < 1e-12, self.y[distances.argmin(axis=1)], self.y.mean())


def test_a_prior_that_memorises_is_no_leak() -> None:
    """Its answers to training rows are those of a copy that has not seen them, so it is worth what it is worth."""
    X, y = smooth(300)
    remembered = quick(prior=[Memory()], keep_out_of_fold=True).fit(X, y)
    alone = quick(prior=None, keep_out_of_fold=True).fit(X, y)
    X_new, y_new = smooth(300, seed=1)
    fresh, without = (model.predict_distribution(X_new).crps(y_new).mean() for model in (remembered, alone))
    assert remembered.out_of_fold_.crps(y).mean() == pytest.approx(fresh, rel=0.15)
    assert fresh <= 1.1 * without


def test_out_of_fold_answers_are_honest_and_score_the_fit() -> None:
    X, y = smooth(400)
    model = quick(keep_out_of_fold=True).fit(X, y)
    assert model.out_of_fold_ is not None
    assert len(model.out_of_fold_) == 400
    assert model.history_.best_score == pytest.approx(model.out_of_fold_.crps(y).mean())
    X_new, y_new = smooth(400, seed=1)
    assert model.predict_distribution(X_new).crps(y_new).mean() == pytest.approx(model.history_.best_score, rel=0.15)
    assert quick().fit(X, y).out_of_fold_ is None


def test_a_target_that_is_always_the_same_is_answered_with_it() -> None:
    X, _ = smooth(40)
    model = quick().fit(X, np.full(40, 7.0))
    assert model.predict(X.iloc[:3]).tolist() == [7.0] * 3
    assert model.predict_interval(X.iloc[:3]).tolist() == [[7.0, 7.0]] * 3


@pytest.mark.parametrize("n", [1, 2, 3, 9, 12])
def test_few_rows_are_answered_from_what_there_is(n: int) -> None:
    X, y = smooth(n)
    model = quick().fit(X, y)
    low, high = model.predict_interval(X).T
    assert (y.min() <= low).all()
    assert (high <= y.max()).all()


def test_values_that_only_one_fold_has_do_not_stop_a_fit() -> None:
    X, y = smooth(60)
    y = np.where(np.arange(60) < 2, y.max() + 5, 3.0)  # all equal but for two rows
    model = quick(n_folds=5).fit(X, y)
    assert set(np.unique(model.predict_quantiles(X, [0.1, 0.9]))) <= set(np.unique(y))


def test_groups_and_weights_reach_the_folds() -> None:
    X, y = smooth(120)
    groups = np.repeat([f"patient {k}" for k in range(12)], 10)
    model = quick(n_folds=4).fit(X, y, sample_weight=np.ones(120), groups=groups)
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match="groups must have one value per row, 120, but got 3"):
        quick().fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="number of groups, 12, but got n_folds=13"):
        quick(n_folds=13).fit(X, y, groups=groups)


def test_a_small_change_of_a_column_changes_nothing_that_can_be_seen() -> None:
    X, y = smooth(200)
    model = quick(prior=["trees", "process"]).fit(X, y)
    moved = X.copy()
    moved["b"] += 1e-11
    before, after = (model.predict_quantiles(table, [0.05, 0.5, 0.95]) for table in (X, moved))
    assert np.abs(before - after).max() < 1e-6
