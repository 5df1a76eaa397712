import re

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor, load
from diffor.paper.theory.model_diagnosis import EXPLANATIONS, diagnose_model, diagnosis_sections, own_features
from diffor.reports.html import Figure, Heading, Table, as_text, html_page

SMALL = {"n_increments": 4, "width": 16, "denoiser": "mlp"}
QUICK = {"max_steps": 30, "evaluate_every": 10, "method_settings": SMALL, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"size": RNG.random(200), "kind": RNG.choice(["a", "b"], 200), "empty": np.nan})
Y = 10 * TABLE["size"].to_numpy() + RNG.normal(size=200) * 0.5


@pytest.fixture(scope="module")
def model():
    return DiffoRRegressor("paper", diagnose=True, **QUICK).fit(TABLE, Y)


@pytest.fixture(scope="module")
def found(model):
    return diagnose_model(model, TABLE, Y, n_samples=8)


def test_a_model_is_diagnosed_on_its_own_features(model, found, monkeypatch):
    member, features, keys = own_features(model, TABLE)
    assert member is model.ensemble_.models[0]
    assert features.shape == (200, member.encoder.out_features)
    assert keys.shape == (200,)
    assert found["rows"] == 200
    assert found["measurements"]["noise"]["times"] == list(member.method.chain_times)
    # The values along the chain are those of the member for these rows.
    with torch.no_grad():
        values = member.method.values_along(features, keys, 8).mean(dim=1).double().numpy()
    errors = values - model.scale_.to_unit(Y)[:, None]
    mse = found["measurements"]["selection"]["mse"]
    np.testing.assert_allclose(mse, (errors[:100] ** 2).mean(axis=0), rtol=1e-3)
    monkeypatch.setattr("diffor.estimators.rows.BLOCK_ROWS", 64)
    _, pieces, others = own_features(model, TABLE)
    torch.testing.assert_close(pieces, features)
    assert torch.equal(keys, others)


def test_the_model_answers_as_before(model, found):
    again = DiffoRRegressor("paper", **QUICK).fit(TABLE, Y)
    np.testing.assert_array_equal(model.predict(TABLE), again.predict(TABLE))


def test_the_cosines_of_training_are_kept_with_the_model(model, tmp_path):
    assert [record["step"] for record in model.history_.diagnostics] == [10, 20, 30]
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").history_.diagnostics == model.history_.diagnostics


def test_grades_are_diagnosed_along_the_chain():
    grades = np.digitize(Y, [3, 6])
    model = DiffoRClassifier("paper", **QUICK).fit(TABLE, grades)
    found = diagnose_model(model, TABLE, grades, n_samples=8)["measurements"]["ordinal"]
    assert found["by"] == "time"
    assert {one["n_grades"] for one in found["cases"]} == {3}


@pytest.mark.parametrize("method", ["value-squared", "diffor"])
def test_other_methods_have_no_theory(method):
    model = OrdinalRegressor(method, encoder="plain", max_steps=5, random_state=0, verbose=0).fit(TABLE, Y)
    message = f"chain of increments has a theory to measure, but got method={method!r}; fit DiffoRRegressor('pa"
    with pytest.raises(ValueError, match=re.escape(message)):
        diagnose_model(model, TABLE, Y)


def test_rows_and_targets_must_be_equally_many(model):
    message = "X and y must be equally long, but X has 200 rows and y 150 targets; pass both"
    with pytest.raises(ValueError, match=message):
        diagnose_model(model, TABLE, Y[:150])


def test_the_page_has_every_finding_with_its_figure(model, found):
    pytest.importorskip("matplotlib")
    sections = diagnosis_sections(found, "About <this> model.", model.history_)
    headings = [section.text for section in sections if isinstance(section, Heading)]
    assert headings == [part.title for part in EXPLANATIONS.values()]
    tables = [section for section in sections if isinstance(section, Table)]
    assert ("amplification" in tables[1].header, len(tables[1].rows)) == (
        True,
        len(found["measurements"]["noise"]["times"]),
    )
    assert list(next(one for one in tables if "dimensions" in one.header).header[:3]) == ["of", "rows", "dimensions"]
    text = as_text(diagnosis_sections(found, "About", has_figures=False))
    assert max(map(len, text.splitlines())) <= 100
    captions = [section.caption for section in sections if isinstance(section, Figure)]
    assert len(captions) == 10
    assert sum("Logged in training" in caption for caption in captions) == 1
    assert "About &lt;this&gt; model." in html_page("T", sections)
    assert len(diagnosis_sections(found, "", None)) == len(sections) - 1
