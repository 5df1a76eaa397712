import numpy as np
import pytest
import torch

from diffor.priors.design import FoldDesign, as_columns, choose_columns, prior_rows, target_encoding


def test_target_encoding_are_drawn_to_the_overall_mean_and_unseen_levels_have_it():
    codes, target = torch.tensor([[0], [0], [1], [3]]), np.array([1.0, 1.0, 0.0, 0.0])
    (means,) = target_encoding(codes, target, None, np.arange(4))
    # Within their level the two rows agree, so levels are trusted as far as the least prior lets them.
    expected = [(2 + 2 * 0.5) / 4, (2 * 0.5) / 3, 0.5, (2 * 0.5) / 3, 0.5]
    np.testing.assert_allclose(means.numpy(), expected, rtol=1e-6)
    columns = as_columns((torch.zeros(2, 1), torch.tensor([[3], [9]])), [means])
    np.testing.assert_allclose(columns[:, 1].numpy(), [expected[3], 0.5], rtol=1e-6)


def test_target_encoding_of_weighted_rows_are_those_of_repeated_rows():
    codes, target = torch.tensor([[0], [0], [1], [1], [1]]), np.array([1.0, 0.5, 0.0, 0.3, 0.9])
    weights = np.array([2.0, 1.0, 3.0, 1.0, 0.0])
    (weighted,) = target_encoding(codes, target, weights, np.arange(5))
    (repeated,) = target_encoding(codes, target, None, np.repeat(np.arange(5), weights.astype(int)))
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
    design = FoldDesign((torch.zeros(600, 0), codes), target, None, (np.arange(500), np.arange(500, 600)), seed=0)
    assert abs(np.corrcoef(design.table[:, 0], target[:500])[0, 1]) < 0.15
    naive = as_columns((torch.zeros(500, 0), codes[:500]), design.levels)[:, 0].numpy()
    assert np.corrcoef(naive, target[:500])[0, 1] > 0.5


def test_of_too_many_columns_those_that_go_with_the_target_are_chosen():
    generator = np.random.default_rng(0)
    table = generator.uniform(size=(400, 8))
    table[:, 2] = 0.5  # a constant column says nothing
    y = table[:, 5] - table[:, 7] + 0.5 * table[:, 1]
    assert choose_columns(table, y, None, at_most=3).tolist() == [1, 5, 7]
    weights = (np.arange(400) < 200).astype(float)
    y[200:] = table[200:, 0]  # rows of weight zero do not choose
    assert choose_columns(table, y, weights, at_most=3).tolist() == [1, 5, 7]


def test_levels_of_which_one_has_all_the_weight_are_drawn_to_the_mean():
    count = np.array([1e20, 1.0, 1.0])
    assert prior_rows(count * 0.5, count, squares=1e20) == 200
