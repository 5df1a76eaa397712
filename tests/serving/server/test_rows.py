"""Rows as clients send them: what is read, and every way in which they can be wrong."""

import numpy as np
import pytest
from serving import PLAIN, as_rows, make_flats

pytest.importorskip("fastapi")

from diffor import OrdinalRegressor
from diffor.encoders import TabularInputs
from diffor.encoders.tabular.inputs import CategoryColumn, NumericColumn
from diffor.serving.server.columns import MAX_LEVELS, Columns, SideColumn, columns_of
from diffor.serving.server.refusals import RefusedError
from diffor.serving.server.rows import check_rows

GOOD = {"size": 50.0, "rooms": 2, "city": "Oslo"}


@pytest.fixture(scope="module")
def columns():
    return Columns(tuple(TabularInputs().fit(make_flats()[0]).columns))


def problems(rows, columns):
    with pytest.raises(RefusedError) as caught:
        check_rows(rows, columns, max_rows=30)
    return caught.value


def test_rows_become_the_table_they_were(columns):
    table = make_flats()[0].head(20)
    read = check_rows(as_rows(table), columns, max_rows=30)
    inputs = TabularInputs().fit(make_flats()[0])
    for ours, theirs in zip(inputs.transform(read.table), inputs.transform(table), strict=True):
        assert (ours == theirs).all()
    assert read.table["size"].isna().tolist() == [row == 3 for row in range(20)]
    assert read.warnings == []


def test_booleans_are_numbers_and_numbers_may_be_levels():
    columns = Columns((NumericColumn("flag", 0.0, 1.0, False), CategoryColumn("code", ["1", "2"])))
    read = check_rows([{"flag": True, "code": 1}, {"flag": 0, "code": 2.0}, {"flag": None, "code": None}], columns, 9)
    assert np.array_equal(read.table["flag"], [1.0, 0.0, np.nan], equal_nan=True)
    assert read.warnings == []


def test_levels_that_training_did_not_have_are_told(columns):
    (warning,) = check_rows([GOOD, {**GOOD, "city": "Paris"}], columns, max_rows=30).warnings
    assert warning == "row 1: 'city' is 'Paris', which no training row had; the answer takes it for unknown"


def test_missing_and_unknown_columns_are_told_apart(columns):
    refused = problems([GOOD, {"size": 1.0, "rooms": 2, "citty": "Oslo"}], columns)
    assert refused.status == 422
    assert [(one["type"], one["loc"]) for one in refused.problems] == [
        ("missing_column", ["rows", 1, "city"]),
        ("unknown_column", ["rows", 1, "citty"]),
    ]
    missing, unknown = (one["msg"] for one in refused.problems)
    assert missing == ("row 1 must have the column 'city', but it is missing; add it (null if it is not known)")
    assert unknown == (
        "row 1 must have columns that the model knows, but got 'citty', which is none (did you mean 'city'?); "
        "leave it out"
    )


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"rooms": "4"}, "number", "'rooms' of row 1 must be a finite number, but got '4'; send it without quotes"),
        ({"rooms": "many"}, "number", "'rooms' of row 1 must be a finite number, but got 'many'; null if not known"),
        ({"rooms": 10**400}, "number", "'rooms' of row 1 must be a finite number"),
        ({"rooms": float("inf")}, "number", "'rooms' of row 1 must be a finite number, but got inf"),
        ({"rooms": [1]}, "number", "'rooms' of row 1 must be a finite number, but got [1]"),
        ({"city": ["Oslo"]}, "category", "'city' of row 1 must be a text or a number, but got ['Oslo']"),
        ({"city": {"a": 1}}, "category", "'city' of row 1 must be a text or a number"),
        ({"city": "\ud800"}, "category", "'city' of row 1 must be a text or a number, but got '\\ud800'"),
    ],
)
def test_a_wrong_value_is_named(columns, wrong, kind, message):
    (problem,) = problems([GOOD, {**GOOD, **wrong}], columns).problems
    assert (problem["type"], problem["loc"]) == (kind, ["rows", 1, next(iter(wrong))])
    assert problem["msg"].startswith(message)
    assert len(problem["msg"]) < 200


@pytest.mark.parametrize(
    ("rows", "status", "message"),
    [
        ({}, 422, "rows must be a list of objects, one for each row, but got {}"),
        ([], 422, "rows must hold at least one row, but the list is empty"),
        ([GOOD, 3], 422, "row 1 must be an object of columns and values, but got 3"),
        ([GOOD] * 31, 413, "a request must have at most 30 rows, but it has 31; send them in several"),
    ],
)
def test_what_are_no_rows_is_refused(columns, rows, status, message):
    refused = problems(rows, columns)
    assert (refused.status, refused.problems[0]["msg"]) == (status, message)


def test_of_many_problems_some_are_listed_and_the_others_counted(columns):
    found = problems([{}] * 30, columns).problems
    assert len(found) == 21
    assert found[-1]["msg"] == "70 more problems are not listed"


def test_side_columns_are_read_by_role():
    columns = Columns((NumericColumn("size", 0.0, 1.0, False),), (SideColumn("length", "duration", True),))
    read = check_rows([{"size": 1, "length": 30}, {"size": 2, "length": 0}], columns, 9)
    assert read.side["duration"].tolist() == [30.0, 0.0]
    assert list(read.table) == ["size"]
    for wrong in (None, -1, "30"):
        (problem,) = problems([{"size": 1, "length": wrong}], columns).problems
        assert problem["msg"] == f"'length' of row 0, the duration, must be a number from 0 on, but got {wrong!r}"
    assert problems([{"size": 1}], columns).problems[0]["type"] == "missing_column"


def test_an_optional_side_column_is_in_all_rows_or_in_none():
    columns = Columns((NumericColumn("size", 0.0, 1.0, False),), (SideColumn("duration", "duration", False),))
    assert check_rows([{"size": 1}], columns, 9).side == {}
    (problem,) = problems([{"size": 1, "duration": 3}, {"size": 1}], columns).problems
    assert problem["msg"] == (
        "row 1 must have the column 'duration', as other rows of the request have, but it is missing; add it to "
        "all rows or to none"
    )


def test_columns_of_a_model_are_told_with_their_ranges_and_levels():
    table, price = make_flats()
    model = OrdinalRegressor("cwm", **{**PLAIN, "max_steps": 2}).fit(table, price, duration=price + 1)
    told = {column["name"]: column for column in columns_of(model).to_json()}
    assert told["rooms"] | {"centre": 0} == {
        "name": "rooms", "kind": "number", "role": "feature", "required": True, "range": [1.0, 5.0], "centre": 0,
        "may_miss": False,
    }  # fmt: skip
    assert told["city"]["levels"] == ["Bern", "Oslo", "Rome"]
    assert told["duration"]["role"] == "duration"
    renamed = columns_of(model, {"duration": "size"})
    assert renamed.required == ["size", "rooms", "city"]
    assert renamed.to_json()[0]["role"] == "duration"


def test_very_many_levels_are_not_all_told():
    levels = [f"{place:05d}" for place in range(MAX_LEVELS + 5)]
    (told,) = Columns((CategoryColumn("id", levels),)).to_json()
    assert (len(told["levels"]), told["n_levels"]) == (MAX_LEVELS, MAX_LEVELS + 5)
    assert Columns((CategoryColumn("id", None),)).to_json()[0]["levels"] is None


@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0], [-5e6, 0.0, 3.0, 3e6], [0.0, 1e-7, 3e-7], [7.0, 7.0]])
def test_the_range_of_a_column_is_that_of_its_values(values):
    width = max(values) - min(values)
    expected = pytest.approx((min(values), max(values)), abs=1e-3 * width)
    assert NumericColumn.fit("x", np.array(values)).range == expected


def test_very_many_problems_are_counted_and_cut(columns):
    refused = problems([{f"x{place}": 0 for place in range(5000)}], columns)
    assert len(refused.problems) == 21
    assert refused.problems[-1]["msg"] == "4983 more problems are not listed"
    refused = problems([{f"x{place}": 0 for place in range(50_000)}], columns)
    assert refused.problems[-1]["msg"] == "very many more problems are not listed"


def test_names_are_guessed_while_there_are_few_to_compare_with():
    wide = Columns(tuple(NumericColumn(f"column_{place}", 0.0, 1.0, False) for place in range(1500)))
    names = [f"column_{place}" for place in range(1500)]
    refused = problems([dict.fromkeys([*names, "colum_7", "colum_8"], 1.0)], wide)
    first, second = (one["msg"] for one in refused.problems)
    assert "(did you mean 'column_" in first
    assert "did you mean" not in second


def test_large_and_deep_values_are_shown_in_short(columns):
    deep = []
    for _ in range(5000):
        deep = [deep]
    for wrong in (deep, "x" * 10**6, {"a": list(range(10**5))}):
        (problem,) = problems([{**GOOD, "rooms": wrong}], columns).problems
        assert len(problem["msg"]) < 200
