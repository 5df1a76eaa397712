"""``diffor diagnose``: from a model and a file to tables, JSON and a page."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from diffor.cli.diagnose import choose_rows
from diffor.cli.main import main
from diffor.paper.theory.model_diagnosis import EXPLANATIONS

PAPER = ["--preset", "paper", "--max-steps", "20", "--quiet"]


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


def test_every_measurement_is_printed(home, capsys):
    assert main(["diagnose", str(home / "price"), str(home / "rows.csv")]) == 0
    out = capsys.readouterr().out
    assert "all 150 rows, target price." in " ".join(out.split())
    for part in EXPLANATIONS.values():
        assert f"\n{part.title}\n" in out
    assert max(map(len, out.splitlines())) <= 100


def test_grades_are_diagnosed_by_their_places(home, capsys):
    assert main(["diagnose", str(home / "stars"), str(home / "rows.csv"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["measurements"]["ordinal"]["by"] == "time"
    assert facts["measurements"]["ordinal"]["cases"][0]["n_grades"] == 3


def test_json_holds_the_numbers_of_every_measurement(home, capsys):
    assert main(["diagnose", str(home / "price"), str(home / "rows.csv"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"] == "DiffoRRegressor"
    assert facts["target"] == "price"
    assert facts["rows"] == facts["rows_in_file"] == 150
    assert list(facts["measurements"]) == list(EXPLANATIONS)
    weights = facts["measurements"]["fusion"]["weights"]
    assert sum(weights) == pytest.approx(1)


def test_a_page_needs_nothing_beside_itself(home, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    page = tmp_path / "theory.html"
    arguments = ["diagnose", str(home / "price"), str(home / "rows.csv"), "--out", str(page)]
    assert main(arguments) == 0
    assert f"the page is {page}" in capsys.readouterr().err
    html = page.read_text()
    assert html.count("<figure>") == 9
    for forbidden in ("http:", "https:", "src=", "<script"):
        assert forbidden not in html
    assert main(arguments) == 2
    assert "must not exist yet, but it does" in capsys.readouterr().err
    assert page.read_text() == html
    assert main([*arguments, "--force"]) == 0


def test_cosines_that_training_noted_are_drawn_too(home, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "theory.html"
    assert main(["diagnose", str(home / "stars"), str(home / "rows.csv"), "--out", str(page)]) == 0
    assert page.read_text().count("<figure>") == 10
    assert "Mean cosines of the gradients of two times during training." in page.read_text()


def test_a_long_file_is_sampled_and_that_is_told(home, monkeypatch, capsys):
    monkeypatch.setattr("diffor.cli.diagnose.choose_rows", lambda count: choose_rows(count, 40))
    monkeypatch.setattr("diffor.files.tables.CHUNK_ROWS", 64)
    assert main(["diagnose", str(home / "price"), str(home / "rows.csv")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "40 random rows of 150 (seed 0), target price." in out


def test_chosen_rows_are_those_of_the_file(home):
    from diffor.cli.diagnose import _read_rows

    chosen = choose_rows(150, 20)
    rows = _read_rows(home / "rows.csv", (["size"], ["city"]), chosen)
    expected = pd.read_csv(home / "rows.csv").loc[chosen, ["size", "city"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows[["size", "city"]], expected, check_dtype=False)
    assert len(set(chosen)) == 20
    assert (np.diff(chosen) > 0).all()
    assert choose_rows(150, 20).tolist() == chosen.tolist()


def test_the_target_can_be_another_column(home, tmp_path, capsys):
    table = pd.read_csv(home / "rows.csv").rename(columns={"price": "cost"})
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert main(["diagnose", str(home / "price"), str(tmp_path / "rows.csv"), "--target", "cost", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == "cost"


def test_wrong_use_is_one_line_and_writes_nothing(home, tmp_path, capsys):
    few = tmp_path / "few.csv"
    pd.read_csv(home / "rows.csv").head(5).to_csv(few, index=False)
    page = str(tmp_path / "page.html")
    rows = str(home / "rows.csv")
    for arguments, expected in (
        (
            [str(home / "point"), rows],
            "must be a model of the paper's chain, but its method is 'value-squared', of which",
        ),
        ([str(home / "price"), str(few)], "a diagnosis needs at least 8 rows, but there are 5; pass more rows"),
        ([str(home / "price"), rows, "--target", "prise"], "must have the column 'prise'"),
        ([str(home / "price"), rows, "--page", "x"], "diagnose has no option --page"),
        ([str(home / "nothing"), rows], "nothing"),
    ):
        assert main(["diagnose", *arguments, "--out", page]) == 2
        captured = capsys.readouterr()
        assert expected in captured.err
        assert captured.err.count("\n") == 1
        assert captured.out == ""
        assert not (tmp_path / "page.html").exists()


def test_without_matplotlib_a_page_is_refused_before_anything_is_read(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = tmp_path / "page.html"
    assert main(["diagnose", str(home / "price"), "no.csv", "--out", str(page)]) == 2
    assert "figures need matplotlib: install it with pip install 'diffor[plots]'" in capsys.readouterr().err
    assert not page.exists()


def test_help_names_the_command(capsys):
    assert main(["diagnose", "--help"]) == 0
    assert "diffor diagnose model test.csv --out theory.html" in capsys.readouterr().out
