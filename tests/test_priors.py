"""What every named prior keeps to."""

import numpy as np
import pytest
import torch

from diffor.priors import PRIORS, FittedPriors, PriorRows, fit_priors, make_prior
from diffor.priors.contract import counted_rows, whole_folds
from diffor.priors.gaussian_process import GaussianProcess

N = 150
NAMES = sorted(PRIORS)
QUICK = ["trees", "process", "process-ranks", "forest"]


def make_rows(n=N, seed=0, n_numbers=3):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 6, (n, 1), generator=generator)
    return PriorRows((torch.randn(n, n_numbers, generator=generator), codes))


def make_target(rows, noise=0.03, seed=1):
    numbers, codes = rows.inputs
    wanted = 0.5 + 0.2 * torch.sin(numbers[:, 0]) + 0.05 * (codes[:, 0] == 3)
    return np.clip(wanted.numpy() + noise * np.random.default_rng(seed).normal(size=len(wanted)), 0, 1)


def fit(name, rows, u, weights=None, folds=None, seed=0):
    prior = make_prior(name)
    return prior, prior.fit(rows, u, weights, np.arange(len(rows)) % 3 if folds is None else folds, seed)


@pytest.mark.parametrize("name", NAMES)
def test_places_and_spreads_tell_rows_apart(name):
    if name in ("lightgbm", "catboost"):
        pytest.importorskip(name)
    rows, new = make_rows(), make_rows(200, seed=9)
    u, wanted = make_target(rows), make_target(new, seed=10)
    prior, seen = fit(name, rows, u)
    answers = prior.predict(new)
    assert seen.dtype == answers.dtype == np.float32
    for known, target in ((seen, u), (answers, wanted)):
        missed = np.abs(known[:, 0] - target)
        assert missed.mean() < 0.7 * np.abs(target - u.mean()).mean()
        assert 0.5 < missed.mean() / 0.8 / known[:, 1].mean() < 2


@pytest.mark.parametrize("name", QUICK)
def test_no_row_knows_its_own_target(name):
    rows, u = make_rows(), np.random.default_rng(3).uniform(size=N)  # nothing to learn
    _, seen = fit(name, rows, u)
    _, never = fit(name, rows, u, folds=np.full(N, -1))
    for answers in (seen, never):
        assert np.corrcoef(answers[:, 0], u)[0, 1] < 0.4  # chance: one that had seen them would come near 1


@pytest.mark.parametrize("name", NAMES)
def test_tensors_keep_every_bit(name, tmp_path):
    if name in ("lightgbm", "catboost"):
        pytest.importorskip(name)
    from safetensors.torch import load_file, save_file

    rows = make_rows()
    fitted, _ = fit_priors([name], rows, make_target(rows), None, np.arange(N) % 3, seed=0)
    tensors = fitted.to_tensors()
    assert all(key.startswith("prior.0.") for key in tensors)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, tmp_path / "priors.safetensors")
    again = FittedPriors.from_tensors(load_file(tmp_path / "priors.safetensors") | {"network.weight": torch.zeros(1)})
    assert again.names == [name]
    np.testing.assert_array_equal(again.predict(rows), fitted.predict(rows))


def test_several_priors_stand_side_by_side():
    rows = make_rows()
    u, folds = make_target(rows), np.arange(N) % 3
    fitted, seen = fit_priors(["trees", "process"], rows, u, None, folds, seed=0)
    assert seen.shape == fitted.predict(rows).shape == (N, 4)
    again = FittedPriors.from_tensors(fitted.to_tensors())
    assert again.names == ["trees", "process"]
    np.testing.assert_array_equal(again.predict(rows), fitted.predict(rows))
    nothing, none = fit_priors(None, rows, u, None, folds, seed=0)
    assert nothing.names == []
    assert none.shape == nothing.predict(rows).shape == (N, 0)
    assert FittedPriors.from_tensors(nothing.to_tensors()).names == []


@pytest.mark.parametrize("name", QUICK)
def test_a_seed_fixes_everything_and_global_states_are_left_alone(name):
    rows = make_rows()
    u, state, numpy_state = make_target(rows), torch.get_rng_state(), np.random.get_state()[1].copy()
    first, seen = fit(name, rows, u, seed=1)
    torch.rand(3), np.random.rand(3)
    torch.set_rng_state(state)
    again, seen_again = fit(name, rows, u, seed=1)
    np.testing.assert_array_equal(seen, seen_again)
    np.testing.assert_array_equal(first.predict(rows), again.predict(rows))
    assert torch.equal(torch.get_rng_state(), state)
    assert len(numpy_state) == len(np.random.get_state()[1])


@pytest.mark.parametrize("name", QUICK)
def test_a_row_is_answered_alike_whatever_stands_beside_it(name):
    rows, new = make_rows(), make_rows(70, seed=4)
    prior, _ = fit(name, rows, make_target(rows))
    whole = prior.predict(new)
    parts = np.concatenate([prior.predict(new.take(part)) for part in np.array_split(np.arange(70), 9)])
    np.testing.assert_allclose(parts, whole, atol=1e-6)
    assert prior.predict(new.take(np.arange(0))).shape == (0, 2)


@pytest.mark.parametrize("name", QUICK)
def test_a_row_of_weight_zero_is_a_row_removed(name):
    rows = make_rows()
    u, weights, folds = make_target(rows), np.ones(N), np.arange(N) % 3
    weights[::5] = 0
    wild = np.where(weights > 0, u, 1 - u)
    kept = np.flatnonzero(weights)
    _, seen = fit(name, rows, wild, weights, folds)
    _, without = fit(name, rows.take(kept), u[kept], np.ones(len(kept)), folds[kept])
    np.testing.assert_allclose(seen[kept], without, atol=1e-6)
    assert np.abs(seen[weights == 0, 0] - u[weights == 0]).mean() < 0.1


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("case", ["few", "one", "equal", "constant", "twice", "wide", "nothing", "one-fold", "zero"])
def test_degenerate_rows_have_an_answer(name, case):
    n = {"few": 6, "one": 1, "wide": 30}.get(case, 60)
    rows = make_rows(n, n_numbers=400 if case == "wide" else 3)
    u, weights, folds = make_target(rows), None, np.arange(n) % min(3, n)
    if case == "equal":
        u = np.full(n, 0.25)
    if case == "constant":
        rows = PriorRows((torch.ones(n, 3), torch.zeros(n, 1, dtype=torch.int64)))
    if case == "twice":
        rows = rows.take(np.arange(n) // 6)
        u = u[np.arange(n) // 6]
    if case == "nothing":
        rows = PriorRows((torch.zeros(n, 0), torch.zeros(n, 0, dtype=torch.int64)))
    if case == "one-fold":
        folds = np.zeros(n, dtype=np.int64)
    if case == "zero":
        weights = (np.arange(n) % 3 > 0).astype(float)  # the whole of one fold
    prior, seen = fit(name, rows, u, weights, folds)
    for answers in (seen, prior.predict(rows)):
        assert answers.shape == (n, 2)
        assert np.isfinite(answers).all()
        assert (answers[:, 1] > 0).all()
    if case == "equal":
        np.testing.assert_allclose(seen[:, 0], 0.25, atol=1e-6)


def test_codes_never_seen_are_answered():
    rows = make_rows()
    new = PriorRows((rows.inputs[0][:5], torch.full((5, 1), 99)))
    for name in QUICK:
        assert np.isfinite(fit(name, rows, make_target(rows))[0].predict(new)).all()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"prior must be one of .*not 'proces' \(did you mean 'process'\?\)"):
        make_prior("proces")
    with pytest.raises(ValueError, match="must be fitted before it predicts"):
        make_prior("trees").predict(make_rows())


def test_every_row_is_held_out_once():
    folds = np.where(np.arange(100) < 10, 0, -1)
    whole = whole_folds(folds, seed=0)
    assert (whole[:10] == 0).all()
    assert sorted(np.bincount(whole[10:])[1:].tolist()) == [22, 22, 23, 23]
    assert counted_rows(3, None).tolist() == [0, 1, 2]


def test_many_rows_are_fitted_on_some_and_answered_all(monkeypatch):
    monkeypatch.setattr("diffor.priors.design.MAX_FIT_ROWS", 200)
    monkeypatch.setattr("diffor.priors.gaussian_process.MAX_LANDMARK_ROWS", 300)
    monkeypatch.setattr("diffor.priors.forest.MAX_FOREST_ROWS", 200)
    rows = make_rows(600)
    numbers_only = PriorRows((rows.inputs[0], torch.zeros(600, 0, dtype=torch.int64)))
    for known in (rows, numbers_only):
        u = make_target(rows)
        for prior in (make_prior("trees"), make_prior("forest"), GaussianProcess(max_exact_rows=100, n_landmarks=50)):
            seen = prior.fit(known, u, None, np.arange(600) % 3, 0)
            for answers in (seen, prior.predict(known)):
                assert np.abs(answers[:, 0] - u).mean() < 0.6 * np.abs(u - u.mean()).mean()


def test_ranks_do_not_care_how_far_apart_values_lie():
    rows = make_rows()
    u = make_target(rows)
    numbers, codes = rows.inputs
    stretched = PriorRows((torch.sinh(3 * numbers), codes))
    first, second = (fit("process-ranks", known, u)[1] for known in (rows, stretched))
    np.testing.assert_allclose(first[:, 0], second[:, 0], atol=1e-3)
