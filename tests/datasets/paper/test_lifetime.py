"""Criteo's log and Kaggle's shoppers: miniatures in the true layout, splits, leaks, damage and checks."""

import dataclasses
import gzip
import hashlib

import numpy as np
import pandas as pd
import pytest
from miniatures_tables import COMPANIES, SHOPPERS, TRANSACTIONS_HEADER

from diffor.datasets import DATASETS, DISTRIBUTIONS
from diffor.datasets.paper.lifetime import CRITEO_FILES, HASHES, SHOPPERS_FILES
from diffor.datasets.readers.arrow_cache import cached_table
from diffor.datasets.readers.customer_years import TRANSACTIONS, customer_years
from diffor.datasets.readers.published_files import check_files

survey_criteo, survey_shoppers = DISTRIBUTIONS["criteo"].survey, DISTRIBUTIONS["shoppers"].survey


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


def years_of(root, cache, n_companies=3, **options):
    """Customers by way of a cache of their own."""
    return customer_years(
        cached_table(next(root.rglob("transactions.csv.gz")), TRANSACTIONS, cache), cache, n_companies, **options
    )


# Criteo.


def test_criteo_is_read_without_losing_its_first_row(shipped, clicks):
    samples, report = survey_criteo(shipped)
    assert len(samples) == report.n_kept == report.n_read == len(clicks) == 300
    assert report.dropped == {}
    assert samples.y[:4].tolist() == [59.9, 0, 120.5, 0]  # -1 is nothing; a sale of nothing is nothing too
    assert samples.y == pytest.approx(np.maximum(clicks[1].astype(float), 0))
    assert samples.x.columns.tolist() == ["nb_clicks_1week", "hour", "weekday", *HASHES]  # neither outcomes nor price
    assert samples.side == {}


def test_criteo_hashes_become_a_category_each_and_gaps_stay_gaps(shipped, clicks):
    samples = survey_criteo(shipped)[0]
    x = samples.x
    for place, name in enumerate(HASHES, start=6):
        is_missing = clicks[place].isin(["-1", ""])
        assert x[name].isna().tolist() == is_missing.tolist()
        pairs = pd.DataFrame({"text": clicks[place], "code": x[name].cat.codes})[~is_missing].drop_duplicates()
        assert pairs["text"].is_unique  # a text has one category
        assert pairs["code"].is_unique  # and shares it with no other
        assert len(x[name].cat.categories) == len(pairs)
    assert x["product_title"].isna().sum() == 1
    assert x["nb_clicks_1week"].isna().tolist() == clicks[4].eq("-1").tolist()
    times = pd.to_datetime(clicks[3].astype(int), unit="s")
    assert x["hour"].tolist() == times.dt.hour.tolist()
    users = pd.DataFrame({"user": clicks[22], "group": samples.groups}).drop_duplicates()
    assert len(users) == users["user"].nunique() == users["group"].nunique()  # users are the groups
    days = pd.DataFrame({"found": x["weekday"].cat.codes, "day": times.dt.day_of_week}).drop_duplicates()
    assert len(days) == days["found"].nunique() == days["day"].nunique() == 7


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1\t59.9", "one\t59.9", "values of type int32 in column Sale, but line 1 has 'one'"),
        ("1\t59.9\t", "1\t", "23 cells in each line, but line 1 has 22"),
    ],
)
def test_damaged_criteo_rows_are_named_or_dropped(root, old, new, message):
    path = root / "Criteo_Conversion_Search" / "CriteoSearchData"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=f"{path} must .*{message}; take CriteoSearchData as it is in the archive"):
        survey_criteo(root)
    samples, report = survey_criteo(root, on_bad_row="drop")
    assert len(samples) == 299
    assert sum(report.dropped.values()) == 1


# Shoppers.


def test_customers_are_known_by_their_first_day_with_a_company(tmp_path):
    customers, dropped = years_of(write_transactions(tmp_path, SHOPPERS), tmp_path / "cache", n_companies=2)
    assert customers[["id", "company"]].to_numpy().tolist() == [[1, 10000], [2, 10000], [2, 101200010], [4, 10000]]
    assert customers["calibration_value"].tolist() == [8.5, 8, 2.5, 8]
    # Day 365 after the first is still in, day 366 is not; what was brought back does not count.
    assert customers["holdout_value"].tolist() == [10, 0, 0, 0]
    assert customers["dept"].tolist() == [9, 3, 4, 7]  # the largest line, and the first of two equal ones
    assert customers["productmeasure"].tolist() == ["OZ", "CT", "LB", "OZ"]  # the largest has none, the next one has
    lines = [line.replace(",OZ,", ",,") for line in SHOPPERS]  # a measure that is nowhere is missing
    unmeasured, _ = years_of(write_transactions(tmp_path / "other", lines), tmp_path / "cache", n_companies=1)
    assert unmeasured["productmeasure"].isna().tolist() == [True, False, True]
    assert dropped == {
        "lines of other companies": 1,
        "lines of returns or without an amount": 1,
        "lines of customers who did not come first in 2012-03-01 to 2012-07-01": 3,
        "lines later than 365 days after the first": 1,
    }


def test_shoppers_samples(shipped):
    samples, report = survey_shoppers(shipped)
    assert samples.x.columns.tolist() == [
        "company", "chain", "dept", "category", "brand", "productmeasure", "log_calibration_value",
    ]  # fmt: skip
    assert all(samples.x[name].dtype == "category" for name in samples.x.columns[:-1])
    assert set(samples.x["company"]) == set(COMPANIES)
    assert samples.x["log_calibration_value"][0] == pytest.approx(np.log(8.5))
    assert samples.y[0] == 10
    assert samples.groups[:3].tolist() == [1, 2, 2]
    assert len(samples) == len(samples.groups)
    lines = pd.read_csv(shipped / "kaggle" / "transactions.csv.gz")
    assert (report.n_read, report.n_kept) == (len(lines), len(lines) - sum(report.dropped.values()))


def test_shoppers_agree_with_grouping_everything_at_once(shipped):
    lines = pd.read_csv(shipped / "kaggle" / "transactions.csv.gz", parse_dates=["date"])
    lines = lines[lines["company"].isin(COMPANIES) & (lines["purchaseamount"] > 0)]
    spent = {}
    for key, group in lines.groupby(["id", "company"]):
        first = group["date"].min()
        if pd.Timestamp(2012, 3, 1) <= first <= pd.Timestamp(2012, 7, 1):
            later = group[(group["date"] > first) & (group["date"] <= first + pd.Timedelta(days=365))]
            spent[key] = later["purchaseamount"].sum()
    samples = survey_shoppers(shipped)[0]
    found = dict(zip(zip(samples.groups, samples.x["company"], strict=True), samples.y, strict=True))
    assert found == pytest.approx(spent)
    assert list(found) == sorted(found)


def test_the_number_of_lines_in_memory_and_their_order_do_not_matter(shipped, tmp_path, monkeypatch):
    one, one_unused = years_of(shipped, tmp_path / "one")
    monkeypatch.setattr("diffor.datasets.readers.arrow_cache.BATCH_ROWS", 16)
    many, many_unused = years_of(shipped, tmp_path / "many", n_lines=40)
    pd.testing.assert_frame_equal(one, many, rtol=1e-12)
    assert one_unused == many_unused
    backward = write_transactions(tmp_path / "backward", SHOPPERS[::-1])
    forward = write_transactions(tmp_path / "forward", SHOPPERS)
    (tmp_path / "plain").mkdir()
    packed = (forward / "transactions.csv.gz").read_bytes()
    (tmp_path / "plain" / "transactions.csv").write_bytes(gzip.decompress(packed))  # which is as good
    found = [survey_shoppers(root)[0].y.tolist() for root in (forward, backward, tmp_path / "plain")]
    assert found[0] == found[1] == found[2]


def test_companies_are_those_with_most_lines(shipped, tmp_path):
    lines = pd.read_csv(shipped / "kaggle" / "transactions.csv.gz")
    assert set(years_of(shipped, tmp_path / "cache", 1)[0]["company"]) == {lines["company"].mode()[0]}
    returns = ["9,1,1,1,7,1,2012-04-01,1,OZ,-1,-1.00"] * 3
    bought = ["9,1,1,1,8,1,2012-04-01,1,OZ,1,1.00"] * 2
    root = write_transactions(tmp_path, [*returns, "9,1,1,1,7,1,2012-04-01,1,OZ,1,1.00", *bought])
    assert set(years_of(root, tmp_path / "other", 1)[0]["company"]) == {7}


def test_a_file_without_customers_of_those_days_is_named(tmp_path):
    root = write_transactions(tmp_path, ["9,1,1,1,7,1,1999-04-01,1,OZ,1,1.00"])
    with pytest.raises(ValueError, match=r"transactions\.csv\.gz must hold customers .* 2012-03-01 to 2012-07-01, but"):
        survey_shoppers(root)


def test_damaged_transactions_are_named_or_dropped(tmp_path):
    line = "6,205,7,707,10000,12564,2012-03-02,12,OZ,1,"
    root = write_transactions(tmp_path / "a", [*SHOPPERS, line])
    with pytest.raises(ValueError, match="in column purchaseamount, but line 15 has ''"):
        survey_shoppers(root)
    sound = write_transactions(tmp_path / "b", SHOPPERS)
    assert len(survey_shoppers(root, on_bad_row="drop")[0]) == len(survey_shoppers(sound)[0])


def test_truncated_transactions_and_web_pages_are_named(root):
    path = root / "kaggle" / "transactions.csv.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"transactions\.csv\.gz must be a whole gzip file, but .*; fetch the file"):
        survey_shoppers(root)
    (error,) = DISTRIBUTIONS["shoppers"].check(root).errors
    assert f"{path} must be a whole gzip file, but " in error
    path.write_text("<!DOCTYPE html><title>Kaggle: sign in</title>\n")
    with pytest.raises(ValueError, match=r"must begin with the header id,chain,.*, but got '<!DOCTYPE html>"):
        survey_shoppers(root)
    (error,) = DISTRIBUTIONS["shoppers"].check(root).errors
    assert "must hold data, but it is a web page" in error


# What both share.


@pytest.mark.parametrize("name", ["criteo", "shoppers"])
def test_splits_are_seeded_and_keep_users_whole(shipped, name):
    dataset = DATASETS[name]
    groups = dataset.read(shipped).groups
    first, again, other = (dataset.split(shipped, index) for index in (0, 0, 1))
    assert sorted(np.concatenate(first)) == list(range(len(groups)))
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
    assert len(first[1]) == pytest.approx(0.2 * len(groups), rel=0.15)
    assert not set(groups[first[0]]) & set(groups[first[1]])


def test_checks_compare_with_what_is_published(shipped):
    (error,) = DISTRIBUTIONS["criteo"].check(shipped).errors
    assert "CriteoSearchData must have 6,426,808,162 bytes, but it has" in error
    (error,) = DISTRIBUTIONS["shoppers"].check(shipped).errors
    assert "transactions.csv.gz must have 349,655,789 rows, but it has" in error
    data = (shipped / "Criteo_Conversion_Search" / "CriteoSearchData").read_bytes()
    digest = ("sha256", hashlib.sha256(data).hexdigest())
    known = dataclasses.replace(CRITEO_FILES[0], n_bytes=len(data), digest=digest)
    assert check_files(shipped, "criteo", "", [known]).errors == []
    wrong = dataclasses.replace(known, digest=("sha256", "0" * 64))
    (error,) = check_files(shipped, "criteo", "", [wrong]).errors
    assert f"must have the sha256 {'0' * 64}, but got {digest[1]}; fetch" in error
    whole = dataclasses.replace(SHOPPERS_FILES[0], n_rows=survey_shoppers(shipped)[1].n_read)
    assert check_files(shipped, "shoppers", "", [whole]).errors == []
