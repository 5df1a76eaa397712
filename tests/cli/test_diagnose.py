"""``diffor diagnose``: from a model and a file to tables, JSON and a page."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from diffor.cli.diagnose import choose_rows
from diffor.cli.main import main
from diffor.paper.theory.model_diagnosis import EXPLANATIONS

PAPER = ["--preset", "paper", "--max-steps", "4", "--quiet"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data and two models, which tests read and do not change."""
    folder = tmp_path_factory.mktemp("diagnosed")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(150), "size": rng.normal(size=150), "city": rng.choice(["Oslo", "Rome"], 150)})
    table["price"] = table["size"] * 2 + rng.normal(size=150)
    table["stars"] = np.digitize(table["price"], [-1, 1]) + 1
    table.to_csv(folder / "rows.csv", index=False)
    data = str(folder / "rows.csv")
    for name, target, *options in (
        ("price", "price", "--drop", "id", "stars"),
        ("stars", "stars", "--drop", "id", "price", "--classify", "--diagnose"),
        ("point", "price", "--drop", "id", "stars", "--method", "value-squared"),
    ):
        assert main(["fit", data, "--target", target, *options, *PAPER, "--out", str(folder / name)]) == 0
    return folder


def test_json_holds_the_numbers_of_every_measurement_of_another_column_too(home, here, capsys):
    pd.read_csv(home / "rows.csv").rename(columns={"price": "cost"}).to_csv("rows.csv", index=False)
    assert main(["diagnose", str(home / "price"), "rows.csv", "--target", "cost", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["model"], facts["target"]) == ("DiffoRRegressor", "cost")
    assert facts["rows"] == facts["rows_in_file"] == 150
    assert list(facts["measurements"]) == list(EXPLANATIONS)
    assert sum(facts["measurements"]["fusion"]["weights"]) == pytest.approx(1)


def test_grades_are_diagnosed_by_their_places_and_noted_cosines_are_drawn(home, here, capsys):
    pytest.importorskip("matplotlib")
    words = ["diagnose", str(home / "stars"), str(home / "rows.csv"), "--json", "--out", "theory.html"]
    assert main(words) == 0
    ordinal = json.loads(capsys.readouterr().out)["measurements"]["ordinal"]
    assert (ordinal["by"], ordinal["cases"][0]["n_grades"]) == ("time", 3)
    html = (here / "theory.html").read_text()
    assert html.count("<figure>") == 10
    assert "Mean cosines of the gradients of two times during training." in html


def test_a_long_file_is_sampled_and_a_page_is_replaced_only_if_asked(home, here, monkeypatch, capsys, refused):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("diffor.cli.diagnose.choose_rows", lambda count: choose_rows(count, 40))
    monkeypatch.setattr("diffor.files.tables.CHUNK_ROWS", 64)
    (here / "theory.html").write_text("mine")
    words = ["diagnose", str(home / "price"), str(home / "rows.csv"), "--out", "theory.html"]
    assert "must not exist yet, but it does" in refused(*words)
    assert (here / "theory.html").read_text() == "mine"
    assert main([*words, "--force"]) == 0
    shown = capsys.readouterr()
    assert "the page is theory.html" in shown.err
    assert "40 random rows of 150 (seed 0), target price." in " ".join(shown.out.split())
    assert all(f"\n{part.title}\n" in shown.out for part in EXPLANATIONS.values())
    assert max(map(len, shown.out.splitlines())) <= 100
    html = (here / "theory.html").read_text()
    assert html.count("<figure>") == 9
    assert not any(forbidden in html for forbidden in ("http:", "https:", "src=", "<script"))


def test_chosen_rows_are_those_of_the_file(home):
    from diffor.cli.diagnose import _read_rows

    chosen = choose_rows(150, 20)
    rows = _read_rows(home / "rows.csv", (["size"], ["city"]), chosen)
    expected = pd.read_csv(home / "rows.csv").loc[chosen, ["size", "city"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows[["size", "city"]], expected, check_dtype=False)
    assert len(set(chosen)) == 20
    assert (np.diff(chosen) > 0).all()
    assert choose_rows(150, 20).tolist() == chosen.tolist()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["HOME/point", "HOME/rows.csv"],
            "must be a model of the paper's chain, but its method is 'value-squared', ",
        ),
        (["HOME/price", "few.csv"], "a diagnosis needs at least 8 rows, but there are 5; pass more rows"),
        (["HOME/price", "HOME/rows.csv", "--target", "prise"], "must have the column 'prise'"),
        (["HOME/price", "HOME/rows.csv", "--page", "x"], "diagnose has no option --page"),
        (["HOME/nothing", "HOME/rows.csv"], "nothing"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(home, here, refused, words, expected):
    pd.read_csv(home / "rows.csv").head(5).to_csv("few.csv", index=False)
    words = [word.replace("HOME", str(home)) for word in words]
    assert expected in refused("diagnose", *words, "--out", "page.html")
    assert not (here / "page.html").exists()


def test_without_matplotlib_a_page_is_refused_before_anything_is_read(home, here, monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told = refused("diagnose", home / "price", "no.csv", "--out", "page.html")
    assert "figures need matplotlib: install it with pip install 'diffor[plots]'" in told
    assert not (here / "page.html").exists()
