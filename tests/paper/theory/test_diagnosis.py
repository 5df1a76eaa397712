import json

import numpy as np
import pytest
import torch
from chain_methods import make_method, make_rows

from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.theory.diagnosis import diagnose
from diffor.paper.theory.model_diagnosis import EXPLANATIONS


@pytest.mark.parametrize(
    "settings",
    [
        {"spacing": "log", "denoiser": "transformer", "n_attention_heads": 2, "decoding": "heads"},
        {"decoding": "fusion", "process": "flow_matching"},
        {"spacing": "shared"},
        {"n_increments": 1},
    ],
)
def test_every_kind_of_method_is_diagnosed(settings):
    facts = diagnose(make_method(**settings), *make_rows(40), n_samples=4)
    assert facts["rows"] == 40
    assert list(facts["measurements"]) == list(EXPLANATIONS)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_values_are_cut_into_grades_and_grades_are_followed_along_the_chain():
    features, y, keys = make_rows(40)
    values = diagnose(make_method(), features, y, keys, n_samples=4, grade_counts=(2, 5))["measurements"]["ordinal"]
    assert (values["by"], [one["n_grades"] for one in values["cases"]]) == ("number of grades", [2, 5])
    method = make_method(n_increments=2)
    grades = diagnose(method, features, (2 * y).round() / 2, keys, n_grades=3, n_samples=4)["measurements"]["ordinal"]
    assert (grades["by"], [one["time"] for one in grades["cases"]]) == ("time", list(method.chain_times))


def test_chains_in_pieces_are_the_chains_of_all_rows(monkeypatch):
    method, rows = make_method(), make_rows(48)
    whole = diagnose(method, *rows, n_samples=4)["measurements"]
    monkeypatch.setattr("diffor.paper.theory.diagnosis.CHUNK_ROWS", 16)
    pieces = diagnose(method, *rows, n_samples=4)["measurements"]
    for part, name, tolerance in (("selection", "mse", 1e-5), ("scales", "predictive_entropy", 0.05)):
        np.testing.assert_allclose(pieces[part][name], whole[part][name], atol=tolerance)


def test_a_diagnosis_changes_nothing():
    method, rows = IncrementDiffusion(2, n_increments=4, width=16, n_layers=1).eval(), make_rows(40)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    state = torch.get_rng_state()
    diagnose(method, *rows, n_samples=4)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.state_dict().items())
    assert all(parameter.grad is None for parameter in method.parameters())


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="a diagnosis needs at least 8 rows, but there are 5; pass more rows"):
        diagnose(make_method(), *make_rows(5))
