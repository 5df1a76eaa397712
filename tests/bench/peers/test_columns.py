import numpy as np
import pandas as pd

from diffor.bench.peers.columns import FilledColumns, LinearDesign, TrainingColumns, independent_columns


def test_columns_keep_the_commonest_levels():
    x = pd.DataFrame({"kind": pd.Categorical(["b", "b", "a", "c", "c"], categories=["z", "a", "b", "c"])})
    assert TrainingColumns(x).levels[0].tolist() == ["a", "b", "c"]
    assert TrainingColumns(x.astype(pd.CategoricalDtype(list("cba")))).levels[0].tolist() == ["c", "b", "a"]
    assert TrainingColumns(x, max_levels=2).levels[0].tolist() == ["b", "c"]
    np.testing.assert_array_equal(TrainingColumns(x, max_levels=2).codes(x)[:, 0], [0, 0, np.nan, 1, 1])


def test_columns_spell_categories_and_missing_values():
    x = pd.DataFrame({"kind": pd.Categorical([3, None, 7]), "flag": [True, False, True]})
    assert TrainingColumns(x[:2]).spelled(x)["x0"].tolist() == ["3", "missing", "7"]
    assert TrainingColumns(x[:2]).spelled(x)["x1"].tolist() == [1.0, 0.0, 1.0]


def test_filled_columns_drop_constants_and_share_a_code_for_rare_levels():
    x = pd.DataFrame({"size": np.arange(150.0), "kind": pd.Categorical(np.where(np.arange(150) % 4, "a", "b"))})
    x.loc[::19, "size"] = np.nan
    columns = FilledColumns(x.assign(same=1.0, empty=np.nan), max_levels=1)
    assert columns.cardinalities == [2]
    np.testing.assert_array_equal(columns.codes(x.assign(same=1.0, empty=np.nan))[:, 0], (x["kind"] != "a").astype(int))
    numbers = columns.numbers(x.assign(same=1.0, empty=np.nan))
    assert numbers.shape == (150, 2)
    np.testing.assert_array_equal(numbers[:, 1], x["size"].isna())
    assert numbers[0, 0] == x["size"].median()


def test_design_standardises_numbers_and_spells_out_the_commonest_levels():
    x = pd.DataFrame({"kind": pd.Categorical(["a", "a", "b", "b", "c"]), "size": [1.0, 2.0, 3.0, 4.0, np.nan]})
    matrix = LinearDesign(x, max_levels=2).matrix(x)
    assert matrix.shape == (5, 4)  # size, its flag, and two of the three kinds
    np.testing.assert_allclose(matrix[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(matrix[:, 2:], [[1, 0], [1, 0], [0, 1], [0, 1], [0, 0]])


def test_columns_that_others_stand_for_are_dropped():
    first, second = np.random.default_rng(0).normal(size=(2, 50))
    levels = np.eye(3)[np.arange(50) % 3]  # the three add up to a constant
    matrix = np.column_stack([first, first + second, second, np.ones(50), levels])
    assert len(independent_columns(matrix)) == 4
