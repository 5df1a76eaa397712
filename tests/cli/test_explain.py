"""``diffor explain``: real files, tables, JSON and a page."""

import json

import numpy as np
import pandas as pd
import pytest

from diffor.cli.main import main


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"size": random.uniform(0, 1, 90), "city": random.choice(["Oslo", "Rome"], 90)})
    rows["price"] = 10 * rows["size"] + random.normal(0, 0.2, 90)
    rows["quality"] = np.where(rows["price"] > 5, "high", "low")
    rows.to_csv(folder / "rows.csv", index=False)
    rows.drop(columns=["price", "quality"]).to_csv(folder / "new.csv", index=False)
    for target, extra in (("price", ["--drop", "quality"]), ("quality", ["--drop", "price", "--grades", "low,high"])):
        assert main(["fit", str(folder / "rows.csv"), "--target", target, *extra, "--preset", "fast", "--max-steps",
                     "60", "--quiet", "--out", str(folder / target)]) == 0  # fmt: skip
    return folder


@pytest.mark.parametrize("target", ["price", "quality"])
def test_tables_json_and_a_page_say_the_same(home, tmp_path, capsys, target):
    pytest.importorskip("matplotlib")
    command = ["explain", str(home / target), str(home / "rows.csv"), "--rows", "2", "17", "--repeats", "2"]
    assert main(command) == 0
    text = capsys.readouterr().out
    page = tmp_path / "why.html"
    assert main([*command, "--json", "--report", str(page)]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert shown.err == f"the page is {page}\n"
    assert [one["column"] for one in told["importances"]] == ["size", "city"]
    assert (told["target"], told["contributions"]["rows"], told["n_rows"]) == (target, [1, 16], 90)
    assert "size" in text
    assert "row 17" in text
    html = page.read_text()
    assert html.count("<figure>") == 2
    assert f"<title>What moves {target}</title>" in html


def test_rows_without_the_target_are_explained_by_their_widths(home, capsys):
    assert main(["explain", str(home / "price"), str(home / "new.csv"), "--json", "--columns", "city"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["target"], told["crps"], len(told["importances"])) == (None, None, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rows", "91"], "--rows must be from 1 to 90, the rows of"),
        (["--columns", "sise"], "columns must be among the model's, but got 'sise' (did you mean 'size'?)"),
        (["--target", "prise"], "must have the column 'prise' (did you mean 'price'?)"),
        (["--report", "why.txt"], "--report must be a page whose name ends in .html, but got why.txt; rename it"),
        (["--force"], "--force is for --report, but no page is asked for"),
    ],
)
def test_wrong_use_is_one_line(home, capsys, options, words):
    assert main(["explain", str(home / "price"), str(home / "rows.csv"), *options]) == 2
    assert words in capsys.readouterr().err
