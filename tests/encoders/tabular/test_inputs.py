import datetime
import decimal
import json
import re
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diffor.core.table import as_table
from diffor.encoders.tabular.inputs import (
    FIRST_LEVEL,
    HASH_BUCKETS,
    HASH_PAIRS,
    MISSING,
    NORMAL_MIDDLE_HALF,
    SCALED_ROWS,
    UNKNOWN,
    NumericColumn,
    TabularInputs,
)
from diffor.errors import UserError, UserTypeError


def refused(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


def column(values, **keywords) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, **keywords)})


def fitted(table: pd.DataFrame) -> TabularInputs:
    return TabularInputs().fit(table)


def numbers(train: pd.DataFrame, test: pd.DataFrame | None = None) -> list:
    return fitted(train).transform(train if test is None else test)[0].tolist()


def codes(train: pd.DataFrame, test: pd.DataFrame | None = None) -> list[int]:
    return fitted(train).transform(train if test is None else test)[1].squeeze(1).tolist()


def smooth(x: float) -> float:
    return x / np.sqrt(1 + (x / 4) ** 2)


# Numbers.


def test_numbers_are_scaled_by_median_and_quartiles():
    scaled = numbers(column([0.0, 1.0, 2.0, 3.0, 4.0]))
    assert np.ravel(scaled) == pytest.approx([smooth(x * 1.349) for x in (-1, -0.5, 0, 0.5, 1)])


@settings(deadline=None)
@given(npst.arrays(float, st.integers(1, 40), elements=st.floats(allow_nan=True, allow_infinity=False, width=32)))
def test_scaled_numbers_are_finite_and_bounded(values):
    tensor, _ = fitted(column(values)).transform(column(values))
    assert torch.isfinite(tensor).all()
    assert tensor.abs().max() <= 4 if tensor.numel() else True


@settings(deadline=None)
@given(npst.arrays(float, st.integers(3, 40), elements=st.integers(-100, 100)))
def test_scaling_keeps_order(values):
    tensor, _ = fitted(column(values)).transform(column(np.sort(values)))
    assert (tensor.diff(dim=0) >= 0).all()


@pytest.mark.parametrize("wild", [1e9, 1e160, 1.7e308, -1.7e308])
def test_a_wild_value_approaches_the_end_without_drowning_the_others(wild):
    scaled = np.ravel(numbers(column([1.0, 2.0, 3.0, 4.0, wild])))
    assert abs(scaled[-1]) == pytest.approx(4, abs=1e-3)
    assert np.sign(scaled[-1]) == np.sign(wild)
    assert np.unique(scaled[:4].round(3)).size == 4


def test_mostly_equal_numbers_are_scaled_by_their_range():
    scaled = np.ravel(numbers(column([0.0] * 9 + [10.0])))
    assert scaled.tolist() == pytest.approx([0.0] * 9 + [smooth(2)])


def test_missing_numbers_stand_at_the_centre_with_a_flag():
    scaled = numbers(column([0.0, 1.0, 2.0, None]))
    assert scaled[3] == [0.0, 1.0]
    assert [row[1] for row in scaled[:3]] == [0.0] * 3


def test_numbers_missing_only_at_prediction_stand_at_the_centre():
    assert numbers(column([0.0, 1.0, 2.0]), column([None, 1.0], dtype=float)) == [[0.0], [0.0]]


def test_a_constant_with_gaps_tells_by_its_flag_alone():
    assert numbers(column([5.0, None, 5.0]), column([5.0, None, 99.0])) == [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "constant",
    [
        column([5.0, 5.0]),
        column([None, None], dtype=float),
        column([None, None], dtype=object),
        column([None, None], dtype="Int64"),
        column([pd.NaT, pd.NaT]),
        column([True, True]),
    ],
)
def test_columns_that_say_nothing_are_left_out(constant):
    inputs = fitted(constant)
    assert inputs.n_numbers == 0
    assert [tuple(part.shape) for part in inputs.transform(constant)] == [(2, 0), (2, 0)]


@pytest.mark.parametrize(
    "table",
    [
        column([0, 1, 2, None], dtype="Int64"),
        column([0, 1, 2, None], dtype="Float64"),
        column([0, 1, 2, None], dtype="float32"),
        column([0, 1, 2, None], dtype="int64[pyarrow]"),
        column([0, 1, 2, None], dtype=object),
        column([0, 1, 2, pd.NA], dtype=object),
        column([0, 1, 2, np.nan], dtype=object),
        column([decimal.Decimal(0), decimal.Decimal(1), decimal.Decimal(2), None], dtype=object),
        column(pd.to_timedelta([0, 1, 2, None], unit="D")),
        column(pd.to_datetime(["1970-01-01", "1970-01-02", "1970-01-03", None])),
        column(pd.to_datetime(["1970-01-01", "1970-01-02", "1970-01-03", None], utc=True)),
        column([datetime.date(1970, 1, 1), datetime.date(1970, 1, 2), datetime.date(1970, 1, 3), None], dtype=object),
        column([datetime.timedelta(0), datetime.timedelta(1), datetime.timedelta(2), None], dtype=object),
        column(pd.PeriodIndex(["1970-01-01", "1970-01-02", "1970-01-03", None], freq="D")),
        column(
            pa.array([0, 86_400_000_000, 172_800_000_000, None], pa.timestamp("us")), dtype="timestamp[us][pyarrow]"
        ),
        column(
            [datetime.date(1970, 1, 1), datetime.date(1970, 1, 2), datetime.date(1970, 1, 3), None],
            dtype="date32[day][pyarrow]",
        ),
    ],
    ids=lambda table: str(table["a"].dtype),
)
def test_every_kind_of_number_reads_the_same(table):
    column_ = fitted(table).columns[0]
    assert (column_.centre, column_.spread, column_.has_missing) == (1.0, pytest.approx(1 / 1.349), True)
    assert numbers(table) == numbers(column([0.0, 1.0, 2.0, None]))


@pytest.mark.parametrize(
    "table",
    [
        column([False, True, None], dtype="boolean"),
        column([False, True, None], dtype=object),
        column([False, True, pd.NA], dtype=object),
        column([False, True, np.nan], dtype=object),
        column([False, True, None], dtype="bool[pyarrow]"),
    ],
    ids=lambda table: str(table["a"].dtype),
)
def test_booleans_are_numbers(table):
    assert numbers(table) == numbers(column([0.0, 1.0, None]))


def test_plain_booleans_and_integers_are_numbers():
    assert numbers(column([False, True, True])) == numbers(column([0.0, 1.0, 1.0]))
    assert numbers(column([3, 1, 2], dtype="uint8")) == numbers(column([3.0, 1.0, 2.0]))


def test_time_zones_name_one_instant():
    utc = column(pd.to_datetime(["2020-01-01 00:00", "2021-06-01 12:30"], utc=True))
    oslo = column(utc["a"].dt.tz_convert("Europe/Oslo"))
    assert numbers(utc, oslo) == numbers(utc)


def test_dates_beyond_nanoseconds_can_be_read():
    table = column([datetime.datetime(2020, 1, 1), datetime.datetime(9999, 12, 31)], dtype="datetime64[us]")
    assert np.ravel(numbers(table)) == pytest.approx([smooth(-1.349), smooth(1.349)])


def test_datetimes_keep_parts_of_a_day():
    table = column(pd.to_datetime(["2020-01-01 00:00", "2020-01-01 06:00", "2020-01-01 12:00"]))
    assert np.ravel(numbers(table)) == pytest.approx([smooth(-1.349), 0, smooth(1.349)], abs=1e-4)


@pytest.mark.parametrize("part", ["fit", "transform"])
def test_infinity_is_refused_with_its_column_and_row(part):
    wrong, right = column([1.0, np.inf, 2.0, -np.inf]), column([1.0, 2.0])
    message = "X must not contain infinity, but column 'a' has 2 such values, the first in row 1"
    with refused(ValueError, message):
        fitted(wrong) if part == "fit" else fitted(right).transform(wrong)


def test_complex_numbers_are_refused():
    with refused(ValueError, "Complex data not supported: column 'a' has dtype complex128"):
        fitted(column([1j, 2.0]))


@pytest.mark.parametrize(
    "changed",
    [
        column(["3.5", "1"]),
        column(["3.5", "1"], dtype=object),
        column(["3.5", None], dtype="string"),
        column(["3.5", "1"], dtype="category"),
        column([1.0, "3.5"], dtype=object),
    ],
    ids=lambda table: str(table["a"].dtype),
)
@pytest.mark.parametrize("train", [[1.0, 2.0], [True, False], list(pd.to_datetime(["2020-01-01", "2021-01-01"]))])
def test_strings_in_a_column_of_numbers_are_refused(train, changed):
    with refused(TypeError, "column 'a' must hold numbers or times, as in training"):
        fitted(column(train)).transform(changed)
    with pytest.raises(TypeError, match=r"but got '3\.5'; correct the value or leave it missing"):
        fitted(column(train)).transform(changed)


def test_an_all_missing_text_column_is_missing_numbers():
    assert numbers(column([0.0, 1.0, None]), column([None, None], dtype="string")) == [[0.0, 1.0], [0.0, 1.0]]


def test_numbers_stored_as_categories_are_read_as_numbers_where_numbers_were_fitted():
    assert numbers(column([1.0, 2.0, 3.0]), column([3, 1], dtype="category")) == numbers(
        column([1.0, 2.0, 3.0]), column([3.0, 1.0])
    )


# Categories.


@pytest.mark.parametrize(
    "table",
    [
        column(["b", "a", None, "b"]),
        column(["b", "a", None, "b"], dtype=object),
        column(["b", "a", np.nan, "b"], dtype=object),
        column(["b", "a", pd.NA, "b"], dtype=object),
        column(["b", "a", None, "b"], dtype="string"),
        column(["b", "a", None, "b"], dtype="category"),
        column(["b", "a", None, "b"], dtype=pd.CategoricalDtype(["b", "a"], ordered=True)),
        column(["b", "a", None, "b"], dtype=pd.ArrowDtype(pa.string())),
        column(["b", "a", None, "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        as_table(pl.DataFrame({"a": ["b", "a", None, "b"]})),
        as_table(pl.DataFrame({"a": pl.Series(["b", "a", None, "b"], dtype=pl.Categorical)})),
        as_table(pa.table({"a": ["b", "a", None, "b"]})),
        as_table(pa.table({"a": pa.array(["b", "a", None, "b"]).dictionary_encode()})),
    ],
)
def test_every_kind_of_category_reads_the_same(table):
    assert fitted(table).category_sizes == [FIRST_LEVEL + 2]
    assert codes(table) == [3, 2, MISSING, 3]
    assert codes(column(["a", "b"]), table) == [3, 2, MISSING, 3]
    assert codes(table, column(["a", "b", "c", None], dtype=object)) == [2, 3, UNKNOWN, MISSING]


def test_unseen_and_missing_categories_have_codes_of_their_own():
    assert codes(column(["a", "b"]), column(["c", None, "a"])) == [UNKNOWN, MISSING, 2]


@pytest.mark.parametrize(
    "same",
    [
        column([2, 1, None], dtype="category"),
        column([2.0, 1.0, np.nan]),
        column([2, 1, None], dtype="Int64"),
        column(["2", "1", None]),
        column([2, 1.0, None], dtype=object),
    ],
    ids=lambda table: str(table["a"].dtype),
)
def test_levels_that_are_integers_keep_their_meaning_in_any_storage(same):
    assert codes(column([1, 2], dtype="category"), same) == [3, 2, MISSING]


def test_boolean_categories_match_plain_booleans():
    assert codes(column([True, False], dtype="category"), column([False, True])) == [2, 3]
    assert codes(column(["True", "False"]), column([False, True])) == [2, 3]


def test_levels_come_from_the_rows_not_from_the_declaration():
    declared = column(["a", "b"], dtype=pd.CategoricalDtype(["z", "a", "b"]))
    assert fitted(declared).columns[0].levels == ["a", "b"]


def test_mixed_numbers_and_strings_are_categories():
    assert fitted(column([1, "x", 2.5, None], dtype=object)).columns[0].levels == ["1", "2.5", "x"]


def test_intervals_and_dates_can_be_levels():
    cut = column(pd.cut(pd.Series([1.0, 2.0, 3.0]), 2))
    assert codes(cut) == [2, 2, 3]
    assert codes(column(pd.to_datetime(["2020-01-01", "2020-01-02"])).astype("category")) == [2, 3]


def test_a_text_column_without_text_has_two_codes():
    empty = column([None, None], dtype="string")
    assert fitted(empty).category_sizes == [FIRST_LEVEL]
    assert codes(empty, column(["a", None])) == [UNKNOWN, MISSING]


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"raw", object()])
def test_objects_that_are_no_levels_are_refused(value):
    table = pd.DataFrame({"a": pd.Series([value, "x"], dtype=object)})
    with refused(TypeError, f"a value of X must be a string or a number, but {value!r} is a "):
        fitted(table)
    with refused(TypeError, f"but {value!r} is a "):
        fitted(column(["x", "y"])).transform(table)


def many_ids(n: int) -> pd.DataFrame:
    return column([f"id {i}" for i in range(n)])


def test_ids_have_an_embedding_each():
    """The videos and users of the paper's logs: 10,728 and 26,988 of them, none of which shares its embedding."""
    for n, can_be_sparse in ((10_728, True), (26_988, True), (120_000, True), (26_988, False)):
        inputs = TabularInputs(can_be_sparse=can_be_sparse).fit(many_ids(n))
        assert inputs.category_sizes == [FIRST_LEVEL + n]
        assert inputs.tables == ["sparse" if can_be_sparse else "dense"]
        assert inputs.collisions == {}
        assert len(inputs.transform(many_ids(n))[1].unique()) == n
    assert TabularInputs().fit(many_ids(10_000)).tables == ["dense"]
    assert TabularInputs.from_json(json.loads(json.dumps(inputs.to_json()))).category_sizes == inputs.category_sizes


def test_very_many_levels_are_hashed_where_all_embeddings_are_trained():
    n = 150_000
    table = many_ids(n)
    with pytest.warns(UserWarning, match=r"has 150,000 levels, more than 100,000, so they are hashed: \d\d.\d\d% of"):
        inputs = TabularInputs(can_be_sparse=False).fit(table)
    assert inputs.category_sizes == [FIRST_LEVEL + HASH_BUCKETS]
    assert inputs.columns[0].levels is None
    found = inputs.transform(table)[1]
    assert found.min() >= FIRST_LEVEL
    assert found.max() < FIRST_LEVEL + HASH_BUCKETS
    counts = found.unique(return_counts=True)[1]
    assert inputs.collisions == {inputs.columns[0].name: float(counts[counts > 1].sum()) / n}
    assert inputs.transform(column([None, "id 7"]))[1].squeeze(1).tolist() == [MISSING, int(found[7])]
    assert inputs.transform(column(["never seen"]))[1].item() >= FIRST_LEVEL
    again = TabularInputs.from_json(json.loads(json.dumps(inputs.to_json())))
    assert torch.equal(again.transform(table)[1], found)
    assert again.collisions == inputs.collisions


def test_hashing_on_request_gives_each_level_two_rows_where_single_ones_are_trained():
    with pytest.warns(UserWarning, match="more than 100, so they are hashed: "):
        inputs = TabularInputs(max_levels=100).fit(many_ids(12_000))
    assert inputs.tables == [HASH_PAIRS]
    assert inputs.collisions == {inputs.columns[0].name: 0.0}
    assert len(inputs.transform(many_ids(12_000))[1].unique()) == 12_000
    with pytest.warns(UserWarning, match="hashed"):
        assert TabularInputs(max_levels=100).fit(many_ids(101)).tables == ["dense"]


def test_hashed_codes_are_the_same_in_another_process():
    program = (
        "import pandas as pd; from diffor.encoders.tabular.inputs import CategoryColumn; import numpy as np;"
        "print(CategoryColumn('a', None).transform(np.array(['id 1', 'id 2', 'æ'], dtype=object)).tolist())"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    with pytest.warns(UserWarning, match="hashed"):
        inputs = TabularInputs(max_levels=5, can_be_sparse=False).fit(many_ids(101))
    assert json.loads(answer) == inputs.transform(column(["id 1", "id 2", "æ"]))[1].squeeze(1).tolist()


def test_ten_thousand_levels_keep_a_code_each():
    table = many_ids(10_000)
    assert len(set(codes(table))) == 10_000


# Whole tables.


def mixed_table(n: int = 50, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "constant": 1.0,
            "word": rng.choice(["a", "b", "c"], n),
            "grade": pd.Categorical(rng.integers(0, 4, n)),
            "flag": rng.random(n) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="D"),
            "whole": pd.array(rng.integers(0, 9, n), dtype="Int64"),
        }
    )
    table.loc[3, ["word", "grade", "day", "whole"]] = None
    return table


def test_a_mixed_table_has_the_promised_shapes():
    table = mixed_table()
    inputs = fitted(table)
    values, found = inputs.transform(table)
    assert values.dtype == torch.float32
    assert found.dtype == torch.int64
    assert values.shape == (50, inputs.n_numbers) == (50, 8)  # number, gaps 2, flag, day 2, whole 2
    assert found.shape == (50, 2)
    assert inputs.category_sizes == [5, 6]
    assert (found < torch.tensor(inputs.category_sizes)).all()
    assert (found[3] == MISSING).all()


def test_columns_read_together_are_what_each_is_alone():
    table = pd.concat([mixed_table(), mixed_table(seed=1)] * 50, ignore_index=True)
    table["same"], table["small"] = 7, table["number"].astype(np.float16)
    table["count"] = np.arange(len(table), dtype=np.uint64) + 2**63
    assert len(table) > SCALED_ROWS
    for wanted in (list(table.columns), ["number", "gaps", "flag", "same", "small", "count"], ["count"], ["word"]):
        inputs = fitted(table[wanted])
        alone = [fitted(table[[name]]).transform(table[[name]])[0] for name in wanted]
        for rows in (slice(None), slice(3, 4)):
            found = inputs.transform(table[wanted].iloc[rows])[0]
            assert torch.equal(found, torch.cat([part[rows] for part in alone], dim=1))
            assert found.shape[1] == inputs.n_numbers


def test_infinity_among_columns_that_are_read_together_is_refused_with_its_column_and_row():
    train, table = mixed_table(), mixed_table()
    table.loc[7, "gaps"] = -np.inf
    for names in (["number", "gaps"], list(table.columns)):
        with refused(UserError, "column 'gaps' has 1 such values, the first in row 107"):
            fitted(train[names]).transform(table[names], first_row=100)


def test_json_round_trip_gives_identical_tensors():
    inputs = fitted(mixed_table())
    copy = TabularInputs.from_json(json.loads(json.dumps(inputs.to_json())))
    for table in (mixed_table(), mixed_table(seed=1)):
        for one, other in zip(inputs.transform(table), copy.transform(table), strict=True):
            assert torch.equal(one, other)
    assert copy.to_json() == inputs.to_json()
    assert (copy.n_numbers, copy.category_sizes) == (inputs.n_numbers, inputs.category_sizes)


def test_json_round_trip_of_hashed_levels():
    inputs = fitted(many_ids(10_001))
    copy = TabularInputs.from_json(json.loads(json.dumps(inputs.to_json())))
    assert torch.equal(copy.transform(many_ids(50))[1], inputs.transform(many_ids(50))[1])


@pytest.mark.parametrize(
    "name", [("a", "b"), pd.Timestamp("2020-01-01"), float("nan"), None, float("inf"), pd.NaT, b"a"]
)
def test_names_that_no_model_could_be_saved_with_are_refused(name):
    table = pd.DataFrame({"placeholder": [1.0, 2.0]})
    table.columns = pd.Index([name], tupleize_cols=False, dtype=object)
    with pytest.raises(UserError, match=r"column names must be text or finite numbers, but got .*rename it"):
        fitted(table)


@pytest.mark.parametrize("values", [[1.0, 1.0], [1.0, 2.0], [True, True]])
@pytest.mark.parametrize(
    "wrong",
    [["x", "y"], [np.inf, 1.0], [1j, 2.0], pd.to_datetime(["2020-01-01", None]), pd.to_timedelta([1, 2], unit="s"),
     [datetime.date(2020, 1, 1), None]],
)  # fmt: skip
def test_a_column_of_numbers_stays_one_even_if_it_is_constant(values, wrong):
    with pytest.raises(UserError, match="column 'a'"):
        fitted(pd.DataFrame({"a": values})).transform(pd.DataFrame({"a": wrong}))


def test_times_stay_what_they_are_and_columns_without_any_value_take_all():
    dates, durations = pd.to_datetime(["2020-01-01", "2021-01-01"]), pd.to_timedelta([1, 2], unit="D")
    for first, second in ((dates, durations), (durations, dates)):
        with pytest.raises(
            UserTypeError, match=r"must hold (dates|durations), as in training, but got (dates|durations)"
        ):
            fitted(pd.DataFrame({"a": first})).transform(pd.DataFrame({"a": second}))
    for values in ([np.nan, np.nan], [None, None]):
        assert fitted(pd.DataFrame({"a": values})).transform(pd.DataFrame({"a": ["x", "y"]}))[0].shape == (2, 0)
    gaps = pd.DataFrame({"a": pd.to_datetime([None, None])})
    assert fitted(pd.DataFrame({"a": [1.0, None]})).transform(gaps)[0][:, 1].tolist() == [1, 1]


def test_columns_saved_before_it_was_known_what_they_hold_take_numbers_and_times():
    state = fitted(pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2021-01-01"])})).to_json()
    del state[0]["holds"]
    old = TabularInputs.from_json(state)
    numbers = [old.transform(pd.DataFrame({"a": values}))[0] for values in (pd.to_datetime(["2020-07-01"]), [18444.0])]
    assert torch.equal(*numbers)


@pytest.mark.parametrize("name", ["a", 3, 2.5, np.int64(3)])
def test_columns_of_any_name_can_be_written(name):
    for values in ([1.0, 2.0], ["x", "y"]):
        table = pd.DataFrame({"placeholder": values})
        table.columns = pd.Index([name], tupleize_cols=False)
        copy = TabularInputs.from_json(json.loads(json.dumps(fitted(table).to_json())))
        assert all(
            torch.equal(a, b) for a, b in zip(copy.transform(table), fitted(table).transform(table), strict=True)
        )


def test_statistics_come_from_the_fitted_rows_only():
    inputs = fitted(mixed_table())
    before = json.dumps(inputs.to_json())
    far = mixed_table(seed=5).assign(number=1e6, word="unseen")
    together = inputs.transform(pd.concat([mixed_table(), far], ignore_index=True))
    for alone, joined in zip(inputs.transform(mixed_table()), together, strict=True):
        assert torch.equal(alone, joined[:50])
    assert json.dumps(inputs.to_json()) == before


def test_rows_are_transformed_independently():
    inputs, table = fitted(mixed_table()), mixed_table(seed=2)
    whole = inputs.transform(table)
    for first in (0, 3, 17):
        for part, all_rows in zip(inputs.transform(table.iloc[first : first + 1]), whole, strict=True):
            assert torch.equal(part, all_rows[first : first + 1])


def test_fitting_again_forgets_the_first_table():
    assert fitted(mixed_table()).fit(column([1.0, 2.0])).to_json() == fitted(column([1.0, 2.0])).to_json()


def test_the_users_table_is_left_as_it_was():
    table = mixed_table()
    before = table.copy(deep=True)
    fitted(table).transform(table)
    pd.testing.assert_frame_equal(table, before)


def test_the_index_of_a_table_does_not_matter():
    table = mixed_table()
    renamed = table.set_index(np.zeros(len(table), dtype=int))
    for one, other in zip(fitted(table).transform(table), fitted(renamed).transform(renamed), strict=True):
        assert torch.equal(one, other)


def test_a_large_table_is_transformed_quickly():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(100_000, 20)))
    inputs = fitted(table)
    started = time.process_time()
    values, _ = inputs.transform(table)
    assert time.process_time() - started < 2
    assert values.shape == (100_000, 20)


def test_numeric_column_reports_what_it_learnt():
    learnt = NumericColumn.fit("a", np.array([0.0, 1.0, 2.0, np.nan]))
    expected = {
        "kind": "number",
        "name": "a",
        "centre": 1.0,
        "spread": 1 / NORMAL_MIDDLE_HALF,
        "has_missing": True,
        "edges": learnt.edges,
        "low": 0.0,
        "high": 2.0,
    }
    assert learnt.to_json() == expected
