import numpy as np
import pytest
import torch

from diffor import DiffoRRegressor, load
from diffor.encoders import Guide, GuideEncoder, TabularEncoder
from diffor.encoders import guide as guide_module
from diffor.encoders.guide import FoldTable, as_columns, best_share, level_means, prior_rows, split_folds


def make_inputs(n=400, seed=0):
    generator = np.random.default_rng(seed)
    numbers = torch.from_numpy(generator.normal(size=(n, 3)).astype(np.float32))
    codes = torch.from_numpy(generator.integers(2, 6, size=(n, 1)))
    y = ((numbers[:, 0] > 0).float() * 0.4 + codes[:, 0] * 0.1).double()
    return (numbers, codes), y + 0.02 * torch.from_numpy(generator.normal(size=n))


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
    (means,) = level_means(codes, target, None, np.arange(4))
    # Within their level the two rows agree, so levels are trusted as far as the least prior lets them.
    expected = [(2 + 2 * 0.5) / 4, (2 * 0.5) / 3, 0.5, (2 * 0.5) / 3, 0.5]
    np.testing.assert_allclose(means.numpy(), expected, rtol=1e-6)
    columns = as_columns((torch.zeros(2, 1), torch.tensor([[3], [9]])), [means])
    np.testing.assert_allclose(columns[:, 1].numpy(), [expected[3], 0.5], rtol=1e-6)


def test_level_means_of_weighted_rows_are_those_of_repeated_rows():
    codes, target = torch.tensor([[0], [0], [1], [1], [1]]), np.array([1.0, 0.5, 0.0, 0.3, 0.9])
    weights = np.array([2.0, 1.0, 3.0, 1.0, 0.0])
    (weighted,) = level_means(codes, target, weights, np.arange(5))
    (repeated,) = level_means(codes, target, None, np.repeat(np.arange(5), weights.astype(int)))
    torch.testing.assert_close(weighted, repeated)


def test_the_prior_is_the_ratio_of_the_variances_of_the_law():
    generator = np.random.default_rng(0)
    column = np.repeat(np.arange(2000), 10)
    target = 0.5 + 0.1 * generator.normal(size=2000)[column] + 0.3 * generator.normal(size=20_000)
    total, count = np.bincount(column, weights=target), np.bincount(column).astype(float)
    assert prior_rows(total, count, float((target**2).sum())) == pytest.approx(9, rel=0.15)


@pytest.mark.parametrize("column", [np.zeros(50, dtype=int), np.arange(50)], ids=["one level", "all levels unique"])
def test_levels_that_teach_nothing_are_drawn_to_the_mean_most(column):
    target = np.linspace(0, 1, 50)
    assert prior_rows(np.bincount(column, target), np.bincount(column) * 1.0, float((target**2).sum())) == 200


def test_rare_levels_do_not_betray_the_target_of_the_rows_that_trees_are_fitted_on():
    generator = np.random.default_rng(0)
    codes = torch.from_numpy(generator.integers(0, 300, size=(600, 1)))  # two rows a level, without any meaning
    target = generator.uniform(size=600)
    table = FoldTable((torch.zeros(600, 0), codes), target, None, (np.arange(500), np.arange(500, 600)), seed=0)
    assert abs(np.corrcoef(table.table[:, 0], target[:500])[0, 1]) < 0.15
    naive = as_columns((torch.zeros(500, 0), codes[:500]), table.levels)[:, 0].numpy()
    assert np.corrcoef(naive, target[:500])[0, 1] > 0.5


@pytest.mark.parametrize(
    ("first", "second", "expected"), [([1, 1], [0, 0], 0.3), ([0, 0], [0, 0], 0), ([9, 9], [8, 8], 0)]
)
def test_the_better_share_of_two_answers(first, second, expected):
    target = np.array([0.2, 0.4])
    assert best_share(np.array(first, float), np.array(second, float), target, None) == pytest.approx(expected)


def test_a_small_smooth_table_is_answered_by_the_curve_and_a_table_of_steps_by_the_trees():
    generator = np.random.default_rng(0)
    numbers = torch.from_numpy(generator.normal(size=(300, 4)).astype(np.float32))
    inputs = (numbers, torch.zeros(300, 0, dtype=torch.int64))
    noise = 0.02 * torch.from_numpy(generator.normal(size=300))
    straight, _ = Guide.fit(inputs, 0.5 + numbers @ torch.tensor([0.05, 0.04, -0.05, 0.0]) + noise, None, seed=0)
    steps, _ = Guide.fit(inputs, 0.3 + 0.4 * (numbers[:, 0].abs() > 0.7) + noise, None, seed=0)
    assert straight.folds[0].smooth > 0.9
    assert steps.folds[0].smooth < 0.3


def test_an_encoder_may_read_the_guide_alone():
    encoder = GuideEncoder(width=8).eval()
    answer = torch.rand(3, 2)
    first, second = (encoder(torch.randn(3, 5), torch.zeros(3, 0, dtype=torch.int64), answer) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == (3, 8 + 33)


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


def test_of_too_many_columns_those_that_go_with_the_target_are_read(monkeypatch):
    monkeypatch.setattr(guide_module, "MAX_COLUMNS", 3)
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(400, 8, generator=generator)
    numbers[:, 2] = 0.5  # a constant column says nothing
    y = (numbers[:, 5] + 1 - numbers[:, 7] + 0.5 * numbers[:, 1]) / 2.5
    inputs = (numbers, torch.zeros(400, 0, dtype=torch.int64))
    guide, seen = Guide.fit(inputs, y, None, seed=0)
    assert all(fold.chosen.tolist() == [1, 5, 7] for fold in guide.folds)
    assert (seen[:, 0] - y).abs().mean() < 0.03
    restored = Guide.from_tensors(guide.to_tensors())
    assert torch.equal(restored.transform(inputs), guide.transform(inputs))
    weights = torch.ones(400)
    weights[200:] = 0
    y[200:] = numbers[200:, 0]  # rows of weight zero do not choose
    assert 0 not in Guide.fit(inputs, y, weights, seed=0)[0].folds[0].chosen


def test_a_guide_of_an_older_folder_reads_all_columns():
    inputs = (torch.rand(200, 4), torch.zeros(200, 0, dtype=torch.int64))
    guide, _ = Guide.fit(inputs, inputs[0][:, 0], None, seed=0)
    older = {name: tensor for name, tensor in guide.to_tensors().items() if not name.endswith("chosen")}
    assert torch.equal(Guide.from_tensors(older).transform(inputs), guide.transform(inputs))
