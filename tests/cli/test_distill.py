"""``diffor distill``, and the options of predict and evaluate that say how much work an answer is worth."""

import json

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor.cli.main import main

FAST = ["--preset", "fast", "--max-steps", "20", "--no-prior", "--quiet", "--seed", "0"]
CHAIN = ["--preset", "paper", "--max-steps", "3", "--quiet", "--seed", "0"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with rows and two models of them."""
    folder = tmp_path_factory.mktemp("distill")
    random = np.random.default_rng(0)
    table = pd.DataFrame({"size": random.normal(size=150), "city": random.choice(["Oslo", "Rome"], 150)})
    table["price"] = 10 + table["size"] + 0.3 * random.normal(size=150)
    table["stars"] = np.digitize(table["price"], [9.5, 10.5]) + 1
    table.round(3).to_csv(folder / "rows.csv", index=False)  # short numbers, which every reader reads alike
    for target, other, extra in (("price", "stars", []), ("stars", "price", ["--classify"])):
        words = ["fit", str(folder / "rows.csv"), "--target", target, "--drop", other, *extra, *FAST]
        assert main([*words, "--out", str(folder / target)]) == 0
    words = ["fit", str(folder / "rows.csv"), "--target", "price", "--drop", "stars", *CHAIN]
    assert main([*words, "--out", str(folder / "chain")]) == 0
    return folder


def distilled(home, name, out, *more):
    words = ["distill", str(home / name), str(home / "rows.csv"), "--out", str(out), "--max-steps", "5", "--quiet"]
    return main([*words, *more])


@pytest.mark.parametrize("name", ["price", "stars"])
def test_a_student_is_used_by_every_command(home, tmp_path, capsys, name):
    assert distilled(home, name, tmp_path / "student") == 0
    assert "150" in capsys.readouterr().out
    student, rows = str(tmp_path / "student"), str(home / "rows.csv")
    assert main(["predict", student, rows, "--out", str(tmp_path / "answers.csv"), "--coverage", "0.9"]) == 0
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert len(answers) == 150
    assert {"prediction", "low", "high"} <= set(answers.columns)
    capsys.readouterr()
    assert main(["evaluate", student, rows, "--json"]) == 0  # the target is remembered
    assert json.loads(capsys.readouterr().out)["target"] == name


def test_the_command_is_the_python_interface(home, tmp_path):
    assert distilled(home, "price", tmp_path / "student", "--seed", "3") == 0
    rows = pd.read_csv(home / "rows.csv")[["size", "city"]]
    teacher = diffor.load(home / "price")
    expected = teacher.distill(rows, max_steps=5, random_state=3, verbose=0)
    np.testing.assert_array_equal(diffor.load(tmp_path / "student").predict(rows), expected.predict(rows))


def test_wrong_use_leaves_files_as_they_were(home, here, refused):
    assert distilled(home, "price", "student") == 0
    before = (here / "student" / "config.json").read_bytes()
    words = ["distill", home / "stars", home / "rows.csv", "--out"]
    assert "must not exist yet" in refused(*words, "student")
    assert (here / "student" / "config.json").read_bytes() == before
    assert distilled(home, "stars", "student", "--force") == 0
    assert "--out must be another folder than MODEL" in refused(*words, home / "stars", "--force")
    assert "max_rows must be at least 20, but got max_rows=3" in refused(*words, "three", "--max-rows", "3")
    words[1] = home / "chain"
    assert "distill is for priors and cross-fitted networks, but this model is an encoder" in refused(*words, "two")
    assert not (here / "three").exists()


def test_notes_are_handed_on_and_damaged_ones_are_told(home, here, refused):
    diffor.load(home / "price").save("model")
    assert distilled(home, here / "model", "student") == 0
    assert not (here / "student" / "cli.json").exists()
    (here / "model" / "cli.json").write_text("[1")
    told = refused("distill", "model", home / "rows.csv", "--out", "other")
    assert "cli.json must hold what diffor fit noted of the columns, but it is damaged" in told


def test_predict_and_evaluate_take_steps_and_samples(home, tmp_path, capsys):
    model, data = str(home / "chain"), str(home / "rows.csv")
    effort = ["--samples", "5", "--steps", "16"]
    assert main(["predict", model, data, "--out", str(tmp_path / "out.csv"), *effort]) == 0
    rows = pd.read_csv(data)
    expected = diffor.load(model).predict(rows[["size", "city"]], n_samples=5, n_steps=16)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["prediction"], expected)
    assert main(["evaluate", model, data, "--json", *effort]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["mae"]["model"]
    assert found == pytest.approx(np.abs(expected - rows["price"]).mean())
    assert main(["evaluate", str(home / "stars"), data, "--steps", "1"]) == 2
    assert "n_steps is for methods with a chain, but method=" in capsys.readouterr().err


def test_a_calibrated_model_keeps_its_steps(home, here, refused):
    rows = pd.read_csv(home / "rows.csv")
    model = diffor.load(home / "chain")
    model.conformalize(rows[["size", "city"]], rows["price"]).save("model")
    words = ["predict", "model", home / "rows.csv", "--out", "answers.csv", "--coverage", "0.9", "--steps", "2"]
    assert "--coverage of a calibrated MODEL needs the steps" in refused(*words)
