"""Tables on disk: tiny files in the true formats, damaged ones, and the real tables where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from diffor import DATASETS, load_dataset
from diffor.datasets import SUITES
from diffor.datasets.open.vlengagement import NEEDED

ROOT = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[2] / "shared" / "data"))

PURCHASES = """\
 00001 19970101  1   11.77
 00002 19970112  1   12.00
 00002 19970112  5   77.00
 00003 19970102  2   20.76
 00003 19970330  2   20.76
 00003 19980102  1   10.00
 00003 19980103  9   99.00
"""


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def lectures(**changes):
    """Five lectures, one in each fold, with an outcome column that must not become an input."""
    header = ["id", *NEEDED, "num_views"]
    rows = []
    for fold in range(1, 6):
        row = dict.fromkeys(header, "0.5")
        row |= {"id": str(fold), "fold": str(fold), "duration": str(100 * fold), "med_engagement": "0.25"}
        row |= {"language": "en", "type": "vl", "categories": "stem"}
        rows.append(row | changes if fold == 2 else row)
    return "\n".join([",".join(header), *(",".join(row[column] for column in header) for row in rows), ""])


def test_judgements_end_with_the_index_of_the_grade(tmp_path):
    write(tmp_path, "ordinal/lev.csv", "3,2,1,2,3,4,5\n0,2,0\n1,0,4\n2,2,1\n")
    samples = load_dataset("lev", tmp_path)
    assert samples.x.to_numpy().tolist() == [[0, 2], [1, 0], [2, 2]]
    assert samples.y.tolist() == [0, 4, 1]
    train, test = DATASETS["lev"].split(tmp_path, 0)
    assert sorted([*train, *test]) == [0, 1, 2]


def test_responses_begin_with_the_grade_and_may_miss_inputs(tmp_path):
    write(tmp_path, "ordinal/skill.csv", '"response","Age","TotalHours"\n5,27,"3000"\n1,?,\n7,20,NA\n')
    samples = load_dataset("skill", tmp_path)
    assert samples.x.columns.tolist() == ["Age", "TotalHours"]
    assert samples.y.tolist() == [4, 0, 6]
    assert np.isnan(samples.x.to_numpy()).tolist() == [[False, False], [True, True], [False, True]]


LEV = "2,2,1,2,3,4,5\n0,2,0\n"
DAMAGED = [
    ("lev", "9,2,1,2,3,4,5\n0,2,0\n1,0,4\n", r"lev\.csv must begin with its 2 rows and 2 inputs, but got 9, 2; fetch"),
    ("lev", LEV + "1,4\n", r"lev\.csv must have 3 cells in each line, but line 3 has 2; fetch"),
    ("lev", LEV + "1,b,4\n", "must hold numbers, but line 3, column x1 is 'b'; fetch"),
    ("lev", LEV + "1,1,5\n", "must hold grades 0 to 4, but line 3 has 5; fetch"),
    ("lev", "2,2,1,2,3,4,5\n", "must have two lines or more, but it has 1; fetch"),
    ("skill", "league,Age\n5,27\n", "must begin with a header that names response .*, but missing response"),
    ("skill", "response,Age\n5,27\n0,27\n", "must hold grades 1 to 7, but line 3 has 0; fetch"),
    ("skill", "response,Age\n?,27\n", r"must hold numbers, but line 2, column response is '\?'; fetch"),
]


@pytest.mark.parametrize(("name", "text", "message"), DAMAGED)
def test_a_damaged_table_of_grades_is_named(tmp_path, name, text, message):
    write(tmp_path, f"ordinal/{name}.csv", text)
    with pytest.raises(ValueError, match=message):
        load_dataset(name, tmp_path)


def test_customers_are_known_by_their_first_day(tmp_path):
    write(tmp_path, "cdnow/CDNOW_master.txt", PURCHASES)
    samples = load_dataset("cdnow", tmp_path)
    assert samples.x["first_day"].tolist() == [0, 11, 1]
    assert samples.x["weekday"].tolist() == ["Wednesday", "Sunday", "Thursday"]
    assert samples.x["purchases"].tolist() == [1, 2, 1]
    assert samples.x["cds"].tolist() == [1, 6, 2]
    assert samples.x["dollars"].tolist() == [11.77, 89.0, 20.76]
    # Day 365 after the first is still in, day 366 is not; a second purchase on the first day is an input.
    assert samples.y.tolist() == pytest.approx([0, 0, 30.76])
    write(tmp_path, "cdnow/CDNOW_master.txt", "\n".join(reversed(PURCHASES.splitlines())) + "\n")
    backward = load_dataset("cdnow", tmp_path)
    assert backward.x.equals(samples.x)
    assert backward.y.tolist() == pytest.approx(samples.y.tolist())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("customer date\n" + PURCHASES, r"must have customer, date, cds, dollars in each line, but line 1 is"),
        (PURCHASES + " 00004 19970101  1\n", r"must have 4 cells in each line, but line 8 has 3; fetch"),
        (PURCHASES + " 00004 19971301  1  1.0\n", r"must have dates as YYYYMMDD, but line 8 has 19971301; fetch"),
        (PURCHASES + " 00004 19970101  1  free\n", r"line 8, column dollars is 'free'; fetch"),
    ],
)
def test_damaged_purchases_are_named(tmp_path, text, message):
    write(tmp_path, "cdnow/CDNOW_master.txt", text)
    with pytest.raises(ValueError, match=message):
        load_dataset("cdnow", tmp_path)


def test_watch_time_is_share_times_duration(tmp_path):
    write(tmp_path, "vlengagement/VLEngagement_dataset_v1.csv", lectures(easiness=""))
    samples = load_dataset("vlengagement", tmp_path)
    assert samples.y.tolist() == [25, 50, 75, 100, 125]
    assert samples.side["duration"].tolist() == samples.x["duration"].tolist() == [100, 200, 300, 400, 500]
    assert samples.x["easiness"].isna().tolist() == [False, True, False, False, False]
    assert samples.x["type"].dtype == "category"
    assert not {"id", "fold", "med_engagement", "num_views"} & set(samples.x)


def test_folds_are_the_given_ones(tmp_path):
    write(tmp_path, "vlengagement/VLEngagement_dataset_v1.csv", lectures())
    for index in range(5):
        train, test = DATASETS["vlengagement"].split(tmp_path, index)
        assert test.tolist() == [index]
        assert sorted([*train, *test]) == list(range(5))
    with pytest.raises(ValueError, match=r"index must lie in 0 to 4, .* but got index=5"):
        DATASETS["vlengagement"].split(tmp_path, 5)


def test_damaged_lectures_are_named(tmp_path):
    write(tmp_path, "vlengagement/VLEngagement_dataset_v1.csv", lectures().replace("med_engagement", "renamed"))
    with pytest.raises(ValueError, match=r"must begin with a header .*, but missing med_engagement; fetch"):
        load_dataset("vlengagement", tmp_path)
    write(tmp_path, "vlengagement/VLEngagement_dataset_v1.csv", lectures(duration="long"))
    with pytest.raises(ValueError, match=r"line 3, column duration is 'long'; fetch"):
        load_dataset("vlengagement", tmp_path)


@pytest.mark.parametrize("name", ["era", "winequality-white", "cdnow", "vlengagement"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="does not exist: pass the folder that holds"):
        load_dataset(name, tmp_path)
    with pytest.raises(ValueError, match=f"{name} is read from files, but got root=None; pass the folder that holds"):
        load_dataset(name)


@pytest.mark.real_data
@pytest.mark.parametrize("name", SUITES["shared"])
def test_the_real_tables_are_whole(name):
    if not ROOT.is_dir():
        pytest.skip("the tables are not beside the project; set DIFFOR_DATA to the folder that holds uci and ordinal")
    rows = {
        "concrete": 1030, "kin8nm": 8192, "power-plant": 9568, "wine-quality-red": 1599, "era": 1000, "esl": 488,
        "lev": 1000, "swd": 1000, "winequality-white": 3961, "skill": 3337, "cdnow": 23570, "vlengagement": 4046,
    }  # fmt: skip
    dataset = DATASETS[name]
    samples = dataset.read(ROOT)
    train, test = dataset.split(ROOT, 0)
    assert len(samples) == rows[name]
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(rows[name]))
    assert np.isfinite(samples.y).all()
    if dataset.n_grades:
        assert sorted(set(samples.y.tolist())) == list(range(dataset.n_grades))
    if name == "cdnow":  # half of the customers never come back
        assert np.mean(samples.y == 0) == pytest.approx(0.54, abs=0.005)
    assert all(values.dtype.kind == "f" or values.dtype in ("category", "int64") for _, values in samples.x.items())
