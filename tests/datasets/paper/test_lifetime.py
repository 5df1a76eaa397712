"""Criteo's log and Kaggle's shoppers: miniatures in the true layout, options, splits, leaks, damage and checks."""

import dataclasses
import gzip
import hashlib
import shutil

import numpy as np
import pandas as pd
import pytest
from miniatures_tables import COMPANIES, SHOPPERS, TRANSACTIONS_HEADER, write_criteo, write_shoppers

from diffor.datasets.paper.lifetime import (
    CRITEO_FILES,
    CRITEO_INPUTS,
    CRITEO_LEAKS,
    HASHES,
    SHOPPERS_FILES,
    Criteo,
    Shoppers,
    check_criteo,
    check_shoppers,
    read_criteo,
    read_shoppers,
    split_criteo,
    split_shoppers,
)
from diffor.datasets.paper.table_sets import LIFETIME, TABLE_DISTRIBUTIONS
from diffor.datasets.readers.customer_years import TRANSACTIONS, customer_part, customer_years
from diffor.datasets.splits import crossing_groups


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Both distributions below one root, with their caches filled."""
    root = tmp_path_factory.mktemp("shipped")
    write_criteo(root)
    write_shoppers(root / "kaggle")
    read_criteo(root)
    read_shoppers(root)
    return root


@pytest.fixture
def root(shipped, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(shipped, tmp_path / "root")


@pytest.fixture(scope="module")
def clicks(shipped):
    """The log of Criteo as plain text cells."""
    path = shipped / "Criteo_Conversion_Search" / "CriteoSearchData"
    return pd.DataFrame([line.split("\t") for line in path.read_text().splitlines()])


def write_transactions(folder, lines):
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join([TRANSACTIONS_HEADER, *lines]) + "\n"
    (folder / "transactions.csv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


# Criteo.


def test_criteo_is_read_without_losing_its_first_row(shipped, clicks):
    samples, report = Criteo().survey(shipped)
    assert len(samples) == report.n_kept == report.n_read == len(clicks) == 300
    assert report.dropped == {}
    assert samples.y[:4].tolist() == [59.9, 0, 120.5, 0]  # -1 is nothing; a sale of nothing is nothing too
    assert samples.y == pytest.approx(np.maximum(clicks[1].astype(float), 0))
    assert samples.x.columns.tolist() == ["nb_clicks_1week", "hour", "weekday", *HASHES]
    assert samples.side == {}


def test_criteo_hashes_become_buckets_and_gaps_stay_gaps(shipped, clicks):
    x = read_criteo(shipped).x
    for place, name in enumerate(HASHES, start=6):
        is_missing = clicks[place].isin(["-1", ""])
        assert x[name].isna().tolist() == is_missing.tolist()
        pairs = pd.DataFrame({"text": clicks[place], "bucket": x[name].cat.codes})[~is_missing].drop_duplicates()
        assert pairs["text"].is_unique  # a text has one bucket
        assert len(pairs) == 0 or pairs["bucket"].nunique() > 0.95 * len(pairs)  # and two rarely share one
    assert x["product_title"].isna().sum() == 1
    assert x["nb_clicks_1week"].isna().tolist() == clicks[4].eq("-1").tolist()
    times = pd.to_datetime(clicks[3].astype(int), unit="s")
    assert x["hour"].tolist() == times.dt.hour.tolist()
    days = pd.DataFrame({"found": x["weekday"].cat.codes, "day": times.dt.day_of_week}).drop_duplicates()
    assert len(days) == days["found"].nunique() == days["day"].nunique() == 7


def test_criteo_buckets_are_as_many_as_asked_for(shipped):
    few, many = read_criteo(shipped, n_buckets=3), read_criteo(shipped, n_buckets=100_000)
    assert set(few.x["user_id"].cat.codes) == {0, 1, 2}
    assert few.x["user_id"].cat.codes.dtype == np.int8
    assert many.x["user_id"].nunique() == len(np.unique(many.groups))
    with pytest.raises(ValueError, match=r"n_buckets must lie in 2 to 2\*\*31 - 1, but got n_buckets=1"):
        Criteo(n_buckets=1)


def test_criteo_users_are_the_groups(shipped, clicks):
    groups = read_criteo(shipped).groups
    pairs = pd.DataFrame({"user": clicks[22], "group": groups}).drop_duplicates()
    assert pairs["user"].is_unique
    assert pairs["group"].is_unique


def test_criteo_outcomes_and_price_are_inputs_only_when_they_are_named(shipped):
    outcomes = {"SalesAmountInEuro", *CRITEO_LEAKS}
    assert not outcomes & set(read_criteo(shipped).x)
    assert not outcomes & set(CRITEO_INPUTS)
    leaking = read_criteo(shipped, inputs=("device_type",), leaks=("product_price",))
    assert leaking.x.columns.tolist() == ["device_type", "product_price"]
    assert leaking.x["product_price"][:3].tolist() == [59.9, 0, 120.5]
    for name in outcomes:
        with pytest.raises(ValueError, match=f"inputs must be one of nb_clicks_1week, .*, but got inputs='{name}'"):
            Criteo(inputs=(name,))
    with pytest.raises(ValueError, match=r"leaks must be one of Sale, .*, but got leaks='SalesAmountInEuro'"):
        Criteo(leaks=("SalesAmountInEuro",))


def test_criteo_amounts_can_be_limited(shipped):
    samples, report = Criteo(max_amount=100).survey(shipped)
    n_large = report.dropped["SalesAmountInEuro is above 100"]
    assert n_large >= 1
    assert samples.y.max() <= 100
    assert len(samples) == len(samples.x) == len(samples.groups) == 300 - n_large
    train, test = split_criteo(shipped, 0, max_amount=100)
    assert sorted([*train, *test]) == list(range(len(samples)))


def test_criteo_rows_can_be_drawn(shipped):
    every, (some, report) = read_criteo(shipped), Criteo(max_rows=40, seed=1).survey(shipped)
    assert report.dropped == {"not drawn, because of max_rows": 260}
    assert len(some) == 40
    rows = [np.flatnonzero((every.x == row).sum(axis=1) >= every.x.notna().sum(axis=1)) for _, row in some.x.iterrows()]
    assert all(len(found) for found in rows)
    assert np.array_equal(some.y, every.y[[found[0] for found in rows]])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1\t59.9", "one\t59.9", "must hold values of type int32 in column Sale, but line 1 has 'one'"),
        ("1\t59.9\t", "1\t", "must have 23 cells in each line, but line 1 has 22"),
        ("1\t59.9", "Sale\tSalesAmountInEuro", "in column Sale, but line 1 has 'Sale'"),
    ],
)
def test_damaged_criteo_rows_are_named_or_dropped(root, old, new, message):
    path = root / "Criteo_Conversion_Search" / "CriteoSearchData"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the message is looked at below
        read_criteo(root)
    assert f"{path} must" in str(raised.value)
    assert message in str(raised.value)
    assert "take CriteoSearchData as it is in the archive: parted by tabs, without a header" in str(raised.value)
    samples, report = Criteo(on_bad_row="drop").survey(root)
    assert len(samples) == 299
    assert sum(report.dropped.values()) == 1


# Shoppers.


def test_customers_are_known_by_their_first_day_with_a_company(tmp_path):
    customers, report = Shoppers(n_companies=2).customers(write_transactions(tmp_path, SHOPPERS))
    assert customers[["id", "company"]].to_numpy().tolist() == [[1, 10000], [2, 10000], [2, 101200010], [4, 10000]]
    assert customers["calibration_value"].tolist() == [8.5, 8, 2.5, 8]
    # Day 365 after the first is still in, day 366 is not; what was brought back does not count.
    assert customers["holdout_value"].tolist() == [10, 0, 0, 0]
    assert customers["dept"].tolist() == [9, 3, 4, 7]  # the largest line, and the first of two equal ones
    assert customers["productmeasure"].tolist() == ["OZ", "CT", "LB", "OZ"]  # the largest has none, the next one has
    assert report.dropped == {
        "lines of other companies": 1,
        "lines of returns or without an amount": 1,
        "lines of customers who did not come first in 2012-03-01 to 2012-07-01": 3,
        "lines later than 365 days after the first": 1,
    }
    assert (report.n_read, report.n_kept) == (13, 7)


def test_a_measure_that_is_nowhere_is_missing(tmp_path):
    lines = [line.replace(",OZ,", ",,") for line in SHOPPERS]
    samples = read_shoppers(write_transactions(tmp_path, lines), n_companies=1)
    assert samples.x["productmeasure"].isna().tolist() == [True, False, True]


def test_shoppers_samples(shipped):
    samples = read_shoppers(shipped)
    assert samples.x.columns.tolist() == [
        "company", "chain", "dept", "category", "brand", "productmeasure", "log_calibration_value",
    ]  # fmt: skip
    assert all(samples.x[name].dtype == "category" for name in samples.x.columns[:-1])
    assert set(samples.x["company"]) == set(COMPANIES)
    assert samples.x["log_calibration_value"][0] == pytest.approx(np.log(8.5))
    assert samples.y[0] == 10
    assert samples.groups[:3].tolist() == [1, 2, 2]
    assert np.isfinite(samples.y).all()
    assert len(samples) == len(samples.groups)


def test_shoppers_agree_with_grouping_everything_at_once(shipped):
    lines = pd.read_csv(shipped / "kaggle" / "transactions.csv.gz", parse_dates=["date"])
    lines = lines[lines["company"].isin(COMPANIES) & (lines["purchaseamount"] > 0)]
    spent = {}
    for key, group in lines.groupby(["id", "company"]):
        first = group["date"].min()
        if pd.Timestamp(2012, 3, 1) <= first <= pd.Timestamp(2012, 7, 1):
            later = group[(group["date"] > first) & (group["date"] <= first + pd.Timedelta(days=365))]
            spent[key] = later["purchaseamount"].sum()
    samples = read_shoppers(shipped)
    found = dict(zip(zip(samples.groups, samples.x["company"], strict=True), samples.y, strict=True))
    assert found == pytest.approx(spent)
    assert list(found) == sorted(found)


def test_the_number_of_files_and_the_order_of_lines_do_not_matter(shipped, tmp_path):
    loader = Shoppers()
    table = loader.open(shipped / "kaggle" / "transactions.csv.gz", TRANSACTIONS, shipped)
    sizes = dict.fromkeys(COMPANIES, 200)
    arguments = (loader.first_dates, loader.horizon_days)
    one, one_unused = customer_years(table, tmp_path / "one", sizes, *arguments)
    many, many_unused = customer_years(table, tmp_path / "many", sizes, *arguments, n_lines_in_memory=40)
    pd.testing.assert_frame_equal(one, many)
    assert one_unused == many_unused
    assert sorted(path.suffix for path in (tmp_path / "many").iterdir()) == [".lock", ".parquet"]
    backward = write_transactions(tmp_path / "backward", SHOPPERS[::-1])
    forward = write_transactions(tmp_path / "forward", SHOPPERS)
    assert np.array_equal(read_shoppers(backward).y, read_shoppers(forward).y)


def test_customers_are_spread_over_the_files():
    customers = np.arange(0, 1_000_000, 100)
    counts = np.bincount(customer_part(customers, 16), minlength=16)
    assert counts.min() > 0.8 * counts.max()


def test_companies_are_those_with_most_lines_unless_they_are_named(shipped, tmp_path):
    lines = pd.read_csv(shipped / "kaggle" / "transactions.csv.gz")
    assert set(read_shoppers(shipped, n_companies=1).x["company"]) == {lines["company"].mode()[0]}
    assert set(read_shoppers(shipped, companies=(103700030,)).x["company"]) == {103700030}
    with pytest.raises(ValueError, match=r"companies must be in .*transactions\.csv\.gz, but got 7 is not; choose"):
        read_shoppers(shipped, companies=(10000, 7))
    returns = ["9,1,1,1,7,1,2012-04-01,1,OZ,-1,-1.00"] * 3
    bought = ["9,1,1,1,8,1,2012-04-01,1,OZ,1,1.00"] * 2
    root = write_transactions(tmp_path, [*returns, "9,1,1,1,7,1,2012-04-01,1,OZ,1,1.00", *bought])
    assert set(read_shoppers(root, n_companies=1).x["company"]) == {7}
    assert set(read_shoppers(root, n_companies=1, with_returns=False).x["company"]) == {8}


def test_shoppers_options(shipped):
    early = read_shoppers(shipped, companies=(10000,), first_dates=("2012-02-29", "2012-03-01"))
    assert early.groups[:2].tolist() == [2, 5]
    longer = read_shoppers(shipped, companies=(10000,), horizon_days=366)
    assert longer.y[0] == 109
    some, report = Shoppers(max_rows=20).survey(shipped)
    assert len(some) == 20
    assert report.n_read == Shoppers().survey(shipped)[1].n_read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_companies": 0}, "n_companies must be at least 1, but got n_companies=0"),
        ({"horizon_days": 0}, "horizon_days must be at least 1, but got horizon_days=0"),
        (
            {"first_dates": ("2012-03-01", "soon")},
            r"first_dates must be two dates as YYYY-MM-DD, but got first_dates=",
        ),
        ({"first_dates": ("2012-07-01", "2012-03-01")}, r"first_dates must rise, but got first_dates=\('2012-07"),
        ({"first_dates": ("1999-01-01", "1999-02-01")}, r"must hold customers whose first purchase lies in 1999-01-01"),
    ],
)
def test_impossible_shoppers_options_are_refused(shipped, options, message):
    with pytest.raises(ValueError, match=message):
        read_shoppers(shipped, **options)


def test_an_unpacked_file_is_as_good(shipped, tmp_path):
    packed = (shipped / "kaggle" / "transactions.csv.gz").read_bytes()
    (tmp_path / "transactions.csv").write_bytes(gzip.decompress(packed))
    assert np.array_equal(read_shoppers(tmp_path).y, read_shoppers(shipped).y)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [*SHOPPERS, "6,205,7,707,10000,12564,02/03/2012,12,OZ,1,1.00"],
            "in column date, but line 15 has '02/03/2",
        ),
        (
            [*SHOPPERS, "6,205,7,707,10000,12564,2012-03-02,12,OZ,1,"],
            "in column purchaseamount, but line 15 has ''",
        ),
    ],
)
def test_damaged_transactions_are_named_or_dropped(tmp_path, lines, message):
    root = write_transactions(tmp_path, lines)
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the message is looked at below
        read_shoppers(root)
    assert message in str(raised.value)
    assert len(read_shoppers(root, on_bad_row="drop")) == len(
        read_shoppers(write_transactions(tmp_path / "b", SHOPPERS))
    )


def test_truncated_transactions_are_named(root):
    path = root / "kaggle" / "transactions.csv.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"transactions\.csv\.gz must be a whole gzip file, but .*; fetch the file"):
        read_shoppers(root)
    (error,) = check_shoppers(root).errors
    assert f"{path} must be a whole gzip file, but got " in error


def test_a_web_page_in_place_of_the_transactions_is_refused(root):
    (root / "kaggle" / "transactions.csv.gz").write_text("<!DOCTYPE html><title>Kaggle: sign in</title>\n")
    with pytest.raises(ValueError, match=r"must begin with the header id,chain,.*, but got '<!DOCTYPE html>"):
        read_shoppers(root)
    (error,) = check_shoppers(root).errors
    assert "must hold data, but it is a web page" in error


# What both share.


def test_both_are_listed():
    assert [dataset.name for dataset in LIFETIME] == ["criteo", "shoppers"]
    assert set(TABLE_DISTRIBUTIONS) == {"kuairec", "kuairand", "criteo", "shoppers"}


@pytest.mark.parametrize("split", [split_criteo, split_shoppers])
def test_splits_are_seeded_and_of_the_published_shares(shipped, split):
    first, again, other = (split(shipped, index) for index in (0, 0, 1))
    n_rows = len(first[0]) + len(first[1])
    assert sorted(np.concatenate(first)) == list(range(n_rows))
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
    assert len(first[1]) == pytest.approx(0.2 * n_rows, rel=0.15)


@pytest.mark.parametrize("loader", [Criteo, Shoppers])
def test_users_stay_whole_unless_asked_otherwise(shipped, loader):
    groups = loader().survey(shipped)[0].groups
    for index in range(5):
        assert crossing_groups(loader().split(shipped, index), groups) == []
    split = loader(whole_users=False).split(shipped, 0)
    assert len(split.training) == round(0.7 * len(groups))
    assert crossing_groups(split, groups)


@pytest.mark.parametrize("name", ["criteo", "shoppers"])
def test_the_folder_of_the_files_may_come_from_the_environment(shipped, monkeypatch, tmp_path, name):
    survey = TABLE_DISTRIBUTIONS[name].survey
    monkeypatch.setenv("DIFFOR_DATA", str(shipped))
    assert len(survey(None)[0]) > 100
    monkeypatch.delenv("DIFFOR_DATA")
    with pytest.raises(
        ValueError, match=f"{name} is read from files, but got root=None; pass root, or set DIFFOR_DATA"
    ):
        survey(None)
    with pytest.raises(FileNotFoundError, match=f"{name} needs the file .*, but .* holds none"):
        survey(tmp_path)


def test_checks_compare_with_what_is_published(shipped):
    (error,) = check_criteo(shipped).errors
    assert "CriteoSearchData must have 6,426,808,162 bytes, but it has" in error
    (error,) = check_shoppers(shipped).errors
    assert "transactions.csv.gz must have 349,655,789 rows, but it has" in error


def test_whole_files_pass_the_check(shipped):
    data = (shipped / "Criteo_Conversion_Search" / "CriteoSearchData").read_bytes()
    digest = ("sha256", hashlib.sha256(data).hexdigest())
    known = dataclasses.replace(CRITEO_FILES[0], n_bytes=len(data), digest=digest)
    assert check_criteo(shipped, [known]).errors == []
    wrong = dataclasses.replace(known, digest=("sha256", "0" * 64))
    assert f"must have the sha256 {'0' * 64}, but got {digest[1]}; fetch" in check_criteo(shipped, [wrong]).errors[0]
    n_rows = Shoppers().survey(shipped)[1].n_read
    assert check_shoppers(shipped, [dataclasses.replace(SHOPPERS_FILES[0], n_rows=n_rows)]).errors == []
