"""What ``diffor fit`` says before it trains: rows, columns by kind, the target's range, and columns to think about."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffor.cli.main import main
from diffor.cli.table_facts import describe_target, find_doubts, kind_of

N = 60
FEW = ["--preset", "fast", "--max-steps", "3", "--no-prior"]


def make_table():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"rownames": np.arange(1, N + 1), "size": random.uniform(20, 90, N).round(1)})
    table["city"] = random.choice(["Oslo", "Rome"], N)
    table["built"] = pd.date_range("1990-01-31", periods=N, freq="97D").strftime("%Y-%m-%d")
    table["ticket"] = [f"T{number:03d}" for number in random.permutation(N)]
    table["note"] = [f"a quiet flat number {number} near the park" for number in range(N)]
    table["seen"] = [f"{1 + number % 12}/{1 + number % 28}/2026" for number in range(N)]
    table["price"] = (3 * table["size"] + random.normal(0, 5, N)).round(1)
    return table


@pytest.fixture
def here(here):
    make_table().to_csv("train.csv", index=False)
    return here


def said_before_training(capsys, *words):
    assert main(["fit", "train.csv", "--target", "price", "--out", "model", *FEW, *words]) == 0
    text = capsys.readouterr().out
    return text[: text.index("model            ")].splitlines()


def test_the_table_is_described_before_training(here, capsys):
    price = make_table()["price"]
    lines = said_before_training(capsys)
    assert lines[:3] == [
        "rows             60",
        "columns          2 numeric (rownames, size), 1 date (built), 4 categorical (city, ticket, note, seen)",
        f"target           price, {price.min()} to {price.max()}; range of answers {price.min()} to {price.max()}, "
        "taken from these rows: no answer leaves it",
    ]
    assert lines[3:] == [
        "note             column 'rownames' is called like an id and differs in every row; "
        "pass --drop rownames to leave it out",
        "note             column 'ticket' looks like an id: it differs in every row; "
        "pass --drop ticket to leave it out",
        "note             column 'note' looks like free text (60 different texts), which is read as names: "
        "new texts say nothing; make numbers of it beforehand, or pass --drop note to leave it out",
        "note             column 'seen' looks like dates, but '1/1/2026' may be day or month first, "
        "so they are read as names; write them as 2026-11-19, or pass --drop seen to leave it out",
    ]


def test_what_a_note_proposes_silences_it(here, capsys):
    lines = said_before_training(capsys, "--drop", "rownames", "ticket", "note", "seen", "--bounds", "0", "500")
    assert lines[1] == "columns          1 numeric (size), 1 date (built), 1 categorical (city)"
    assert lines[2].endswith("range of answers 0 to 500, by --bounds")
    assert len(lines) == 3


def test_the_lines_stand_there_while_training_runs(here):
    command = [sys.executable, "-m", "diffor", "fit", "train.csv", "--target", "price", "--out", "model"]
    process = subprocess.Popen([*command, "--max-steps", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline() == b"rows             60\n"
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_dates_of_a_csv_file_are_numbers_of_days_from_fit_to_predict(here, capsys, refused):
    table = make_table()
    table[:20].to_csv("spare.csv", index=False)
    drop = ["--drop", "rownames", "ticket", "note", "seen", "--calibration", "spare.csv"]
    assert main(["fit", "train.csv", "--target", "price", *drop, "--out", "model", *FEW, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    table.assign(built=pd.to_datetime(table["built"])).to_parquet("typed.parquet", index=False)
    for name in ("train.csv", "typed.parquet"):
        assert main(["predict", "model", name, "--out", f"{name}.out.csv"]) == 0
    text, typed = (pd.read_csv(f"{name}.out.csv") for name in ("train.csv", "typed.parquet"))
    pd.testing.assert_frame_equal(text, typed)
    table.assign(built="long ago").to_csv("wrong.csv", index=False)
    told = refused("predict", "model", "wrong.csv", "--out", "wrong.out.csv")
    assert "column 'built' of wrong.csv must hold numbers, but got 'long ago' in row 1" in told


def test_an_exported_program_reads_the_same_dates(here):
    pytest.importorskip("onnxruntime", reason="onnxruntime is an optional extra")
    drop = ["--drop", "rownames", "ticket", "note", "seen"]
    assert main(["fit", "train.csv", "--target", "price", *drop, "--out", "model", *FEW, "--quiet"]) == 0
    assert main(["export", "model", "--out", "model.onnx"]) == 0
    assert main(["predict", "model", "train.csv", "--out", "ours.csv"]) == 0
    program = Path(__file__).parents[2] / "examples" / "onnx_only.py"
    command = [sys.executable, program, "model.onnx", "train.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = pd.read_csv(io.StringIO(done.stdout))
    np.testing.assert_allclose(theirs["prediction"], pd.read_csv("ours.csv")["prediction"], atol=1e-3)


def test_kinds_and_doubts_by_hand():
    assert kind_of(pd.Series([True, None], dtype=object)) == "numeric"
    assert kind_of(pd.Series(["a"])) == "categorical"
    assert kind_of(pd.to_datetime(pd.Series(["2026-01-01"]))) == "date"
    few = pd.DataFrame({"id": range(10)})
    assert find_doubts(few) == []  # so few differ by chance
    many = pd.DataFrame({"population": 7 * np.arange(100), "share": np.linspace(0, 1, 100), "id": [3] * 100})
    assert find_doubts(many) == []  # numbers that may be amounts, and an id that repeats
    assert len(find_doubts(pd.DataFrame({"order": np.random.default_rng(0).permutation(100)}))) == 1


def test_grades_are_listed_from_the_lowest():
    column = pd.Series(["low", "high"], name="quality")
    assert describe_target(column, ["low", "high"], False) == "quality, 2 grades: low < high"
    many = describe_target(column, list(range(20)), False)
    assert many == "quality, 20 grades: 0 < 1 < 2 < 3 < 4 < 5 < ... < 17 < 18 < 19"
