import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch

from diffor.core.table import as_table, check_weights, match_columns


def refused(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


# Reading tables.


def test_a_pandas_frame_is_taken_as_it_is():
    frame = pd.DataFrame({"a": [1, 2]}, index=[7, 7])
    assert as_table(frame) is frame


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        [[1.0, 2.0], [3.0, 4.0]],
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[1, 2], [3, 4]], dtype=object),
    ],
    ids=["floats", "lists", "tensor", "objects"],
)
def test_tables_without_names_are_numbered(X):
    table = as_table(X)
    assert table.columns.tolist() == [0, 1]
    assert table.astype(float).to_numpy().tolist() == [[1, 2], [3, 4]]


def test_numbers_in_a_mixed_list_stay_numbers():
    table = as_table([[1.5, "a"], [2.5, "b"]])
    assert table[0].tolist() == [1.5, 2.5]
    assert table[1].tolist() == ["a", "b"]


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "float": [1.5, None, 3.0],
            "int": [1, None, 3],
            "bool": [True, None, False],
            "string": ["x", None, "y"],
            "category": pl.Series(["p", None, "q"], dtype=pl.Categorical),
            "enum": pl.Series(["p", None, "q"], dtype=pl.Enum(["q", "p"])),
            "date": [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 3)],
            "time": [datetime.datetime(2020, 1, 1), None, datetime.datetime(2020, 1, 3)],
            "duration": [datetime.timedelta(1), None, datetime.timedelta(3)],
            "nothing": [None, None, None],
        }
    )


@pytest.mark.parametrize("read", [lambda: polars_frame(), lambda: pa.table(polars_frame().to_arrow())])
def test_polars_and_arrow_keep_names_values_and_gaps(read):
    table = as_table(read())
    assert table.columns.tolist() == polars_frame().columns
    assert table.loc[1].isna().all()
    assert table.loc[[0, 2], "float"].tolist() == [1.5, 3.0]
    assert table.loc[[0, 2], "int"].tolist() == [1, 3]
    assert table.loc[[0, 2], "bool"].tolist() == [True, False]
    for name in ("category", "enum"):
        assert table.loc[[0, 2], name].tolist() == ["p", "q"]
    for name in ("date", "time"):
        assert pd.api.types.is_datetime64_any_dtype(table[name].dtype)
        assert table[name].dt.day.tolist()[::2] == [1, 3]
    assert table["duration"].dt.days.tolist()[::2] == [1, 3]


# Refusals.


NO_ROWS = "X must not be empty, but it has 0 sample(s) (shape=(0, 1))"
NO_COLUMNS = "X must not be empty, but it has 0 feature(s)"
TWICE = "column names must be unique, but 'a' stands twice; rename one"


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (scipy.sparse.csr_matrix(np.eye(3)), TypeError, "X must be dense, but it is a sparse matrix; pass X.toarray()"),
        (scipy.sparse.coo_array(np.eye(3)), TypeError, "X must be dense, but it is a sparse matrix; pass X.toarray()"),
        (polars_frame().lazy(), TypeError, "X must be a polars DataFrame, but it is a LazyFrame; call .collect() "),
        (polars_frame()["int"], TypeError, "X must be a polars DataFrame, but it is a Series; call .to_frame() first"),
        (pd.Series([1, 2]), ValueError, "2-dimensional"),
        ([1, 2], ValueError, "2D array"),
        (pa.chunked_array([[1, 2]]), ValueError, "2D array"),
        (pd.DataFrame({"a": []}), ValueError, NO_ROWS),
        (pl.DataFrame({"a": []}), ValueError, NO_ROWS),
        (pa.table({"a": pa.array([], pa.int64())}), ValueError, NO_ROWS),
        (pd.DataFrame(index=[0, 1]), ValueError, NO_COLUMNS),
        (pl.DataFrame(), ValueError, NO_COLUMNS),
        (np.zeros((0, 3)), ValueError, "0 sample(s)"),
        (np.zeros((3, 0)), ValueError, "0 feature(s)"),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), ValueError, TWICE),
        (pa.table([[1], [2]], names=["a", "a"]), ValueError, TWICE),
    ],
)
def test_what_is_no_table_is_refused(X, kind, message):
    with refused(kind, message):
        as_table(X)


# Matching columns.


def test_missing_and_unknown_columns_are_named():
    table = pd.DataFrame({"a": [1], "x": [2], "y": [3]})
    with refused(ValueError, "but missing: 'b', 'c'; not seen in fit: 'x', 'y'"):
        match_columns(table, ["a", "b", "c"])
    with refused(ValueError, "but missing: 'd'"):
        match_columns(table, ["a", "x", "y", "d"])
    with refused(ValueError, "but not seen in fit: 'y'"):
        match_columns(table, ["a", "x"])


@pytest.mark.parametrize(("columns", "names"), [([0, 1], ["a", "b"]), (["b", "a"], [0, 1])])
def test_tables_without_names_are_taken_by_position(columns, names):
    table = pd.DataFrame([[1, 2]], columns=columns)
    assert match_columns(table, names) is table


# Weights.


def test_weights_are_scaled_to_mean_one():
    assert check_weights([1, 2, 3], 3).tolist() == [0.5, 1.0, 1.5]
    assert check_weights(5, 3).tolist() == [1, 1, 1]
    assert check_weights(pd.Series([0, 4], index=[5, 6]), 2).tolist() == [0, 2]
    assert check_weights(None, 3) is None


@pytest.mark.parametrize("weights", [[1, 2], [[1], [2], [3]]])
def test_weights_of_another_shape_are_refused(weights):
    with refused(ValueError, "sample_weight must have one value per row, shape (3,), but got shape="):
        check_weights(weights, 3)


@pytest.mark.parametrize("weights", [[1, -1, 1], [0, 0, 0], [1, np.nan, 1], [1, np.inf, 1]])
def test_weights_that_cannot_count_are_refused(weights):
    with refused(ValueError, "sample_weight must be finite, not negative and not all zero"):
        check_weights(weights, 3)


@pytest.mark.parametrize("names", [[10, 20], ["a", 7], [("x", "one"), ("x", "two")], [1, 0], ["b", "a"]])
def test_columns_are_matched_by_names_of_any_kind(names):
    table = pd.DataFrame({name: [float(place)] for place, name in enumerate(names)})
    assert match_columns(table.iloc[:, ::-1], names).iloc[0].tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="missing: "):
        match_columns(table.iloc[:, :1].assign(other=1.0), names)
