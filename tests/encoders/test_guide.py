import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from diffor import DiffoRRegressor, load
from diffor.encoders import Guide, TabularEncoder
from diffor.encoders.guide import MAX_DEPTH, as_columns, flatten, level_means, split_folds


def make_inputs(n=400, seed=0):
    generator = np.random.default_rng(seed)
    numbers = torch.from_numpy(generator.normal(size=(n, 3)).astype(np.float32))
    codes = torch.from_numpy(generator.integers(2, 6, size=(n, 1)))
    y = ((numbers[:, 0] > 0).float() * 0.4 + codes[:, 0] * 0.1).double()
    return (numbers, codes), y + 0.02 * torch.from_numpy(generator.normal(size=n))


def test_flat_trees_answer_as_the_library_does():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 5)).astype(np.float32).round(1)  # many ties with the limits of the trees
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]
    model = HistGradientBoostingRegressor(max_iter=40, max_depth=MAX_DEPTH).fit(x, y)
    new = generator.normal(size=(3000, 5)).astype(np.float32).round(1)
    answers = flatten(model, 40).predict(torch.from_numpy(new)).numpy()
    np.testing.assert_allclose(answers, model.predict(new), atol=1e-5)


def test_the_first_trees_are_the_first_rounds():
    (numbers, _), y = make_inputs()
    model = HistGradientBoostingRegressor(max_iter=10, max_depth=MAX_DEPTH).fit(numbers.numpy(), y.numpy())
    stages = list(model.staged_predict(numbers.numpy()))
    np.testing.assert_allclose(flatten(model, 3).predict(numbers).numpy(), stages[2], atol=1e-6)
    np.testing.assert_allclose(flatten(model, 0).predict(numbers).numpy(), y.mean(), atol=1e-6)


def test_no_row_is_answered_by_trees_that_saw_it():
    inputs, y = make_inputs()
    _, seen = Guide.fit(inputs, y, None, seed=3)
    changed = y.clone()
    changed[7] += 0.5
    _, other = Guide.fit(inputs, changed, None, seed=3)
    fold = next(held for _, held in split_folds(len(y), seed=3) if 7 in held)
    others = np.setdiff1d(np.arange(len(y)), fold)
    # Its own target reaches its answer only through the moment at which its fold's trees stop.
    assert abs(other[7, 0] - seen[7, 0]) < 0.05
    assert (other[others, 0] != seen[others, 0]).any()


def test_the_guide_finds_place_and_spread():
    generator = np.random.default_rng(1)
    numbers = torch.from_numpy(generator.uniform(size=(2000, 2)).astype(np.float32))
    inputs = (numbers, torch.zeros(2000, 0, dtype=torch.int64))
    wide = numbers[:, 1] > 0.5
    noise = torch.from_numpy(generator.normal(size=2000)) * torch.where(wide, 0.10, 0.01)
    guide, seen = Guide.fit(inputs, (0.2 + 0.5 * (numbers[:, 0] > 0.5)) + noise, None, seed=0)
    for answer in (seen, guide.transform(inputs)):
        assert answer[numbers[:, 0] > 0.6, 0].mean() == pytest.approx(0.7, abs=0.02)
        assert answer[wide, 1].mean() > 3 * answer[~wide, 1].mean()


def test_rows_of_weight_zero_teach_nothing():
    inputs, y = make_inputs(600)
    wrong = y.clone()
    wrong[::2] = 1 - wrong[::2]
    weights = torch.tensor([0.0, 2.0]).repeat(300)
    guide, _ = Guide.fit(inputs, wrong, weights, seed=0)
    ignored, _ = Guide.fit(inputs, wrong, None, seed=0)
    errors = [float((one.transform(inputs)[:, 0] - y).abs().mean()) for one in (guide, ignored)]
    assert errors[0] < 0.5 * errors[1]


def test_a_large_table_is_fitted_on_a_part_and_answered_whole(monkeypatch):
    inputs, y = make_inputs(3000)
    monkeypatch.setattr("diffor.encoders.guide.MAX_FIT_ROWS", 500)
    guide, seen = Guide.fit(inputs, y, None, seed=0)
    for place in (seen[:, 0], guide.transform(inputs)[:, 0]):
        assert float((place - y).abs().mean()) < 0.05


def test_level_means_are_drawn_to_the_overall_mean_and_unseen_levels_have_it():
    codes, target = torch.tensor([[0], [0], [1], [3]]), np.array([1.0, 1.0, 0.0, 0.0])
    (means,) = level_means(codes, target, np.arange(4))
    expected = [(2 + 20 * 0.5) / 22, (20 * 0.5) / 21, 0.5, (20 * 0.5) / 21, 0.5]
    np.testing.assert_allclose(means.numpy(), expected, rtol=1e-6)
    columns = as_columns((torch.zeros(2, 1), torch.tensor([[3], [9]])), [means])
    np.testing.assert_allclose(columns[:, 1].numpy(), [expected[3], 0.5], rtol=1e-6)


def test_a_guide_survives_being_taken_apart():
    inputs, y = make_inputs()
    guide, _ = Guide.fit(inputs, y, None, seed=0)
    again = Guide.from_tensors(guide.to_tensors())
    assert torch.equal(again.transform(inputs), guide.transform(inputs))


def test_a_row_alone_is_guided_as_among_others():
    inputs, y = make_inputs()
    guide, _ = Guide.fit(inputs, y, None, seed=0)
    together = guide.transform(inputs)
    alone = torch.cat([guide.transform((inputs[0][[i]], inputs[1][[i]])) for i in range(20)])
    torch.testing.assert_close(alone, together[:20], rtol=0, atol=1e-6)


def test_the_code_shows_the_place_and_is_hidden_for_half_of_the_training_rows():
    encoder = TabularEncoder(1, [], is_guided=True, width=4)
    shown = encoder.eval().show_guide(torch.tensor([[0.5, 0.02]]))
    assert shown[0, :32].tolist() == [1.0] * 16 + [-1.0] * 16
    assert shown[0, 32] == pytest.approx(0.2)
    torch.manual_seed(0)
    hidden = (encoder.train().show_guide(torch.rand(2000, 2)) == 0).all(dim=1)
    assert 0.45 < hidden.float().mean() < 0.55
    assert encoder(torch.randn(3, 1), torch.zeros(3, 0, dtype=torch.int64), torch.rand(3, 2)).shape == (3, 37)


def test_guided_estimators_save_their_guide_and_small_or_unwilling_ones_have_none(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 3))
    y = X[:, 0] + 0.1 * generator.normal(size=300)
    quick = {"preset": "fast", "max_steps": 30, "random_state": 0, "verbose": 0}
    model = DiffoRRegressor(**quick).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    assert model.guide_ is not None
    assert DiffoRRegressor(**quick, guide=False).fit(X, y).guide_ is None
    assert model.fit(X[:60], y[:60]).guide_ is None
