"""The card of a model: metadata that the hub reads, and what it says about the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.estimators.model_card import model_card
from diffor.methods import METHODS

X = pd.DataFrame({"size": np.linspace(0, 1, 60), "ci|ty": ["Oslo", "Ro\nme", "<b>"] * 20})
Y = 10 * X["size"].to_numpy()
TINY: dict[str, Any] = {"preset": "fast", "prior": None, "max_steps": 5, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def model() -> DiffoRRegressor:
    return DiffoRRegressor(**TINY, bounds=(0, 20)).fit(X.assign(size=X["size"].where(X.index > 2)), Y)


def parse(text: str) -> Any:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is an optional extra")
    return hub.ModelCard(text)


def test_the_hub_reads_its_metadata(model: DiffoRRegressor) -> None:
    card = parse(model_card(model, name="Prices: \"new\"", metrics={"MAE": 0.5, "coverage of 90 %": 0.91},
                            data="house prices", license="apache-2.0"))  # fmt: skip
    assert (card.data.library_name, card.data.license) == ("diffor", "apache-2.0")
    assert card.data.pipeline_tag == "tabular-regression"
    assert "ordinal-regression" in card.data.tags
    found = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert found == {"out-of-fold-crps": model.history_.best_score, "mae": 0.5, "coverage-of-90-%": 0.91}
    assert card.data.model_name == 'Prices: "new"'
    assert {result.dataset_name for result in card.data.eval_results} == {"house prices"}


def test_it_says_what_the_data_were(model: DiffoRRegressor) -> None:
    text = model_card(model)
    assert "| training rows | 60 |" in text
    assert "| validation rows | 0 |" in text
    assert "| legal range of the target | 0 to 20 |" in text
    assert model.data_summary_ is not None
    assert f"| target, median | {model.data_summary_['target']['median']:.4g} |" in text
    assert "| size | number | around 0." in text
    assert "off, some missing |" in text
    assert "| ci\\|ty | category | 3 levels: &lt;b&gt;, Oslo, Ro me |" in text


def test_the_summary_is_that_of_the_training_rows() -> None:
    model = DiffoRRegressor(**TINY).fit(X[:50], Y[:50], X_val=X[50:], y_val=Y[50:])
    summary = model.data_summary_
    assert summary is not None
    assert (summary["rows"], summary["validation_rows"]) == (50, 10)
    assert "| validation CRPS | " in model_card(model)
    expected = np.quantile(Y[:50], [0, 0.25, 0.5, 0.75, 1])
    assert list(summary["target"].values()) == pytest.approx(expected.tolist())


def test_it_says_how_the_model_was_made(model: DiffoRRegressor) -> None:
    text = model_card(model)
    assert "Preset `fast`, with these in its place:" in text
    assert "| max_steps | 5 |" in text
    assert "5 steps in" in text
    assert f"the weights are those of step {model.history_.best_step}" in text
    assert 'model = DiffoRRegressor.from_pretrained("THIS_REPOSITORY_OR_FOLDER")' in text
    assert "Intervals are calibrated on out-of-fold answers, not guaranteed." in text
    assert "diffor 0." in text
    assert "torch 2." in text


def test_a_long_training_is_shown_in_ten_lines_with_its_end() -> None:
    model = DiffoRRegressor(**{**TINY, "max_steps": 25}, evaluate_every=1, patience=100).fit(X, Y)
    training = model_card(model).split("## Training")[1].split("## Limits")[0]
    rows = [line for line in training.splitlines() if line.startswith("|")][2:]
    assert [row.split("|")[1].strip() for row in rows] == ["1", "4", "7", "10", "13", "16", "19", "22", "25"]


def test_grades_are_counted(tmp_path: Path) -> None:
    grades = np.array(["low", "mid", "high"])[(X["size"] * 2.99).astype(int)]
    settings = {**TINY, "encoder": "plain", "validation_fraction": 0.0}
    model = DiffoRClassifier(**settings, grades=["low", "mid", "high"]).fit(X, grades)
    for one in (model, _reloaded(model, tmp_path)):
        text = model_card(one)
        card = parse(text)
        assert card.data.pipeline_tag == "tabular-classification"
        assert "model-index" not in text
        assert "None: there were no validation rows." in text
        for grade in ("low", "mid", "high"):
            assert f"| grade {grade} | {(grades == grade).sum()} |" in text
        assert "predict_proba(X)" in text


def test_guarantees_and_points_are_named() -> None:
    calibrated = DiffoRRegressor(**TINY).fit(X[:40], Y[:40]).conformalize(X[40:], Y[40:])
    text = model_card(calibrated)
    assert "| calibration rows, for guaranteed coverage | 20 |" in text
    assert "Guaranteed coverage holds for rows exchangeable with the calibration rows" in text
    point = OrdinalRegressor("value-squared", max_steps=5, verbose=0).fit(X, Y)
    text = model_card(point)
    assert f"with the method {METHODS['value-squared'].title}" in text
    assert "it does not say how sure it is" in text


def _reloaded(model: Any, folder: Path) -> Any:
    model.save(folder / "again")
    return type(model).load(folder / "again")
