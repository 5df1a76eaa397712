import re

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor, load
from diffor.paper.theory.diagnosis import TITLES
from diffor.paper.theory.model_diagnosis import diagnose_model, diagnosis_sections, own_features
from diffor.reports.html import Figure, Heading, Table, as_text, html_page

SMALL = {"n_increments": 4, "width": 16, "denoiser": "mlp"}
QUICK = {"max_steps": 30, "evaluate_every": 10, "method_settings": SMALL, "random_state": 0, "verbose": 0}


def make_table(n=200):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.random(n), "kind": rng.choice(["a", "b"], n), "empty": np.nan})
    return table, 10 * table["size"].to_numpy() + rng.normal(size=n) * 0.5


@pytest.fixture(scope="module")
def fitted():
    table, y = make_table()
    model = DiffoRRegressor("paper", diagnose=True, **QUICK)
    return model.fit(table, y), table, y


@pytest.fixture(scope="module")
def found(fitted):
    model, table, y = fitted
    return diagnose_model(model, table, y, n_samples=8)


def test_a_model_is_diagnosed_on_its_own_features(fitted, found):
    model, table, y = fitted
    member, features, keys = own_features(model, table)
    assert member is model.ensemble_.models[0]
    assert features.shape == (200, member.encoder.out_features)
    assert keys.shape == (200,)
    assert found.n_rows == 200
    assert found.noise.times == member.method.chain_times
    # The values along the chain are those of the member for these rows.
    with torch.no_grad():
        values = member.method.values_along(features, keys, 8).mean(dim=1).double().numpy()
    errors = values - model.scale_.to_unit(y)[:, None]
    np.testing.assert_allclose(found.selection.mse, (errors[:100] ** 2).mean(axis=0), rtol=1e-3)


def test_the_model_answers_as_before(fitted, found):
    model, table, _ = fitted
    again = DiffoRRegressor("paper", **QUICK).fit(*make_table())
    np.testing.assert_array_equal(model.predict(table), again.predict(table))


def test_rows_in_blocks_are_the_same_rows(fitted, monkeypatch):
    model, table, _ = fitted
    _, features, keys = own_features(model, table)
    monkeypatch.setattr("diffor.estimators.rows.BLOCK_ROWS", 64)
    _, pieces, others = own_features(model, table)
    torch.testing.assert_close(pieces, features)
    assert torch.equal(keys, others)


def test_the_cosines_of_training_are_kept_with_the_model(fitted, tmp_path):
    model, _, _ = fitted
    assert [record["step"] for record in model.history_.diagnostics] == [10, 20, 30]
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").history_.diagnostics == model.history_.diagnostics


def test_grades_are_diagnosed_along_the_chain():
    table, y = make_table()
    grades = np.digitize(y, [3, 6])
    model = DiffoRClassifier("paper", **QUICK).fit(table, grades)
    found = diagnose_model(model, table, grades, n_samples=8)
    assert found.ordinal.case_name == "time"
    assert {bound.n_grades for bound in found.ordinal.bounds} == {3}


@pytest.mark.parametrize("method", ["value-squared", "diffor"])
def test_other_methods_have_no_theory(method):
    table, y = make_table()
    model = OrdinalRegressor(method, encoder="plain", max_steps=5, random_state=0, verbose=0).fit(table, y)
    message = f"chain of increments has a theory to measure, but got method={method!r}; fit DiffoRRegressor('pa"
    with pytest.raises(ValueError, match=re.escape(message)):
        diagnose_model(model, table, y)


def test_rows_and_targets_must_be_equally_many(fitted):
    model, table, y = fitted
    with pytest.raises(
        ValueError, match="X and y must be equally long, but X has 200 rows and y 150 targets; pass both"
    ):
        diagnose_model(model, table, y[:150])


def test_the_page_has_every_finding_with_its_figure(fitted, found):
    pytest.importorskip("matplotlib")
    sections = diagnosis_sections(found, "About <this> model.", fitted[0].history_)
    headings = [section.text for section in sections if isinstance(section, Heading)]
    assert headings == list(TITLES.values())
    tables = [section for section in sections if isinstance(section, Table)]
    assert ("amplification" in tables[1].header, len(tables[1].rows)) == (True, len(found.noise.times))
    assert list(next(one for one in tables if "dimensions" in one.header).header[:3]) == ["of", "rows", "dimensions"]
    text = as_text(diagnosis_sections(found, "About", has_figures=False))
    assert max(map(len, text.splitlines())) <= 100
    captions = [section.caption for section in sections if isinstance(section, Figure)]
    assert len(captions) == 10
    assert sum("Logged in training" in caption for caption in captions) == 1
    page = html_page("T", sections)
    assert "About &lt;this&gt; model." in page
    assert len(diagnosis_sections(found, "", None)) == len(sections) - 1
