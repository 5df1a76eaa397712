import json

import numpy as np
import pytest
import torch

from diffor.core.row_noise import row_keys
from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.theory.diagnosis import TITLES, diagnose


def make_method(**settings):
    torch.manual_seed(0)
    return IncrementDiffusion(2, **{"n_increments": 4, "width": 16, "n_layers": 1, **settings}).eval()


def make_rows(n=40, n_grades=None):
    generator = torch.Generator().manual_seed(1)
    features, y = torch.randn(n, 2, generator=generator), torch.rand(n, generator=generator)
    if n_grades is not None:
        y = (y * (n_grades - 1)).round() / (n_grades - 1)
    return features, y, row_keys((features,), 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"spacing": "log", "denoiser": "transformer", "n_attention_heads": 2},
        {"decoding": "fusion", "process": "flow_matching", "parameterization": "velocity"},
        {"spacing": "shared"},
        {"n_increments": 1},
        {"denoiser": "mlp", "decoding": "chain", "schedule": "cosine", "parameterization": "velocity"},
    ],
)
def test_every_kind_of_method_is_diagnosed(settings):
    found = diagnose(make_method(**settings), *make_rows(), n_samples=4)
    facts = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert facts["rows"] == 40
    assert list(facts["measurements"]) == list(TITLES)


def test_values_are_cut_into_grades_and_grades_are_followed_along_the_chain():
    values = diagnose(make_method(), *make_rows(), n_samples=4, grade_counts=(2, 5))
    assert values.ordinal.case_name == "number of grades"
    assert values.ordinal.cases == (2, 5)
    method = make_method(n_increments=2)
    grades = diagnose(method, *make_rows(n_grades=3), n_grades=3, n_samples=4)
    assert grades.ordinal.case_name == "time"
    assert grades.ordinal.cases == method.chain_times


def test_chains_in_pieces_are_the_chains_of_all_rows(monkeypatch):
    method, rows = make_method(), make_rows(48)
    whole = diagnose(method, *rows, n_samples=4)
    monkeypatch.setattr("diffor.paper.theory.diagnosis.CHUNK_ROWS", 16)
    pieces = diagnose(method, *rows, n_samples=4)
    np.testing.assert_allclose(pieces.selection.mse, whole.selection.mse, rtol=1e-4)
    np.testing.assert_allclose(pieces.scales.predictive_entropy, whole.scales.predictive_entropy, atol=0.05)


def test_a_diagnosis_changes_nothing():
    method, rows = make_method(), make_rows()
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    diagnose(method, *rows, n_samples=4)
    assert torch.equal(torch.rand(2), expected)
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.state_dict().items())
    assert all(parameter.grad is None for parameter in method.parameters())


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="a diagnosis needs at least 8 rows, but there are 5; pass more rows"):
        diagnose(make_method(), *make_rows(5))
