import numpy as np
import pandas as pd
import pytest

from diffor.reports.evaluation import worst_slices
from diffor.reports.evaluation.slices import MISSING, slices_of


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n = 500
    return pd.DataFrame(
        {
            "city": rng.choice(["Oslo", "Rome", "Bern"], size=n, p=[0.5, 0.3, 0.2]),
            "size": rng.normal(size=n),
            "rooms": rng.integers(1, 4, size=n),
            "sold": rng.random(n) < 0.5,
        }
    )


def test_the_bad_part_comes_first_with_its_errors(table):
    bad = (table["city"] == "Rome").to_numpy()
    errors = np.random.default_rng(1).gamma(2, 1, size=500) * np.where(bad, 2.0, 1.0)
    first, *others = worst_slices(table, errors)
    assert (first.column, first.values, first.n_rows) == ("city", "Rome", bad.sum())
    assert first.error == pytest.approx(errors[bad].mean())
    assert first.elsewhere == pytest.approx(errors[~bad].mean())
    assert first.ratio == pytest.approx(errors[bad].mean() / errors[~bad].mean())
    assert first.p < 0.001
    assert all(part.p > 0.05 for part in others)
    assert [part.statistic for part in others] == sorted((part.statistic for part in others), reverse=True)


def test_numbers_are_cut_into_fifths_and_few_values_stay_whole(table):
    parts = worst_slices(table, np.ones(500) + np.random.default_rng(0).random(500))
    sizes = [part.n_rows for part in parts if part.column == "size"]
    assert sizes == [100] * 5
    assert sorted(part.values for part in parts if part.column == "rooms") == ["1", "2", "3"]
    assert sorted(part.values for part in parts if part.column == "sold") == ["False", "True"]


def test_unknown_values_are_a_part_of_their_own(table):
    table.loc[:49, "size"] = np.nan
    table.loc[:29, "city"] = None
    errors = np.r_[np.full(50, 5.0), np.ones(450)] + np.random.default_rng(0).random(500)
    first, second, *_ = worst_slices(table, errors)
    assert {(first.column, first.values, first.n_rows), (second.column, second.values, second.n_rows)} == {
        ("size", MISSING, 50),
        ("city", MISSING, 30),
    }


def test_few_rows_are_cut_into_fewer_parts():
    table = pd.DataFrame({"size": np.arange(88.0)})
    parts = worst_slices(table, np.random.default_rng(0).random(88))
    assert [part.n_rows for part in parts] == [22] * 4
    assert {part.values for part in parts} == {"0 to 21", "22 to 43", "44 to 65", "66 to 87"}
    assert worst_slices(table.iloc[:30], np.ones(30)) == []
    cities = pd.DataFrame({"city": ["Oslo"] * 19 + ["Rome"] * 21 + ["Bern"] * 60, "same": ["x"] * 100})
    assert {part.values for part in worst_slices(cities, np.arange(100.0))} == {"Rome", "Bern"}  # 19 are too few


def test_chance_alone_is_rarely_called_bad(table):
    found = 0
    for seed in range(40):
        errors = np.random.default_rng(seed).gamma(2, 1, size=500)
        found += any(part.p < 0.05 for part in worst_slices(table, errors))
    assert found <= 6  # of 40 at a level of one in twenty


def test_parts_of_a_column_cover_its_rows_once(table):
    table["empty"] = np.nan
    for name in table:
        masks = np.stack([mask for _, mask in slices_of(table[name])])
        assert (masks.sum(axis=0) == 1).all()


def test_errors_must_fit_the_table(table):
    with pytest.raises(ValueError, match=r"one number for each row of the table, but got rows=500, shape=\(3,\)"):
        worst_slices(table, [1.0, 2.0, 3.0])
