"""``diffor predict --novelty``: a column that names what is unlike training, and one warning for the whole file."""

import pandas as pd
import pytest

from diffor.cli.main import main
from diffor.files import tables


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    rows = pd.DataFrame({"size": range(60), "city": ["Oslo", "Rome"] * 30, "price": range(0, 120, 2)})
    rows["quality"] = rows["price"].map(lambda price: "high" if price > 60 else "low")
    rows.to_csv(folder / "train.csv", index=False)
    rows.assign(size=[500, *range(59)], city=["Rome"] * 58 + ["Lima"] * 2).to_csv(folder / "new.csv", index=False)
    for target, extra in (("price", ["--drop", "quality"]), ("quality", ["--drop", "price", "--grades", "low,high"])):
        assert main(["fit", str(folder / "train.csv"), "--target", target, *extra, "--preset", "fast", "--max-steps",
                     "5", "--quiet", "--out", str(folder / target)]) == 0  # fmt: skip
    return folder


@pytest.mark.parametrize("target", ["price", "quality"])
def test_rows_are_flagged_and_told_once(home, tmp_path, monkeypatch, capsys, target):
    monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
    out = tmp_path / "out.csv"
    assert main(["predict", str(home / target), str(home / "new.csv"), "--novelty", "--out", str(out)]) == 0
    flags = pd.read_csv(out, keep_default_na=False)["novelty"].tolist()
    assert flags == ["size", *[""] * 57, "city", "city"]
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "training range" in line]
    assert line.startswith(
        "diffor: warning: column 'size' is far outside the training range, 0 to 59, in 1 row; column 'city' has a "
        "level that training did not have in 2 rows: answers to such rows are guesses"
    )


def test_without_the_option_there_is_no_column(home, tmp_path):
    out = tmp_path / "out.csv"
    assert main(["predict", str(home / "price"), str(home / "new.csv"), "--out", str(out)]) == 0
    assert pd.read_csv(out).columns.tolist() == ["prediction"]
