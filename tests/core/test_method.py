import numpy as np
import pytest
import torch
from torch import nn

from diffor.core.method import KERNEL_ROWS, Encoder, Method, OrdinalModel, fill_up, weighted_mean
from diffor.core.prediction import Prediction
from diffor.core.row_noise import row_keys
from diffor.encoders import TabularEncoder
from diffor.methods.diffor import IncrementDiffusion


class Identity(Encoder):
    out_features = 3

    def forward(self, *inputs):
        return inputs[0]


class Center(Method):
    """The smallest method: a trainable centre, and samples around the first feature."""

    def __init__(self):
        super().__init__()
        self.centre = nn.Parameter(torch.tensor(0.25))
        self.seen = []

    def loss(self, features, y, weights=None, **side):
        return {"square": weighted_mean((y - self.centre).square(), weights), **side}

    def predict(self, features, keys, n_samples, **side):
        self.seen.append((len(features), len(keys), *(len(column) for column in side.values())))
        return Prediction(features[:, :1].expand(-1, n_samples).numpy())


# The model.


def test_forward_is_the_methods_loss():
    model = OrdinalModel(Identity(), Center())
    terms = model((torch.zeros(2, 3),), torch.tensor([0.25, 1.25]))
    assert {name: float(term.detach()) for name, term in terms.items()} == {"square": 0.5}
    terms = model((torch.zeros(2, 3),), torch.tensor([0.25, 1.25]), torch.tensor([2.0, 0.0]), extra=torch.ones(1))
    assert (float(terms["square"].detach()), float(terms["extra"])) == (0, 1)


@pytest.mark.parametrize("n", [1, 16, 33])
@pytest.mark.parametrize("n_samples", [1, 3])
def test_predict_returns_the_rows_asked_for(n, n_samples):
    model = OrdinalModel(Identity(), Center())
    x = torch.rand(n, 3)
    prediction = model.predict((x,), torch.arange(n), n_samples, duration=torch.rand(n))
    assert prediction.samples.shape == (n, n_samples)
    assert np.array_equal(prediction.samples[:, 0], x[:, 0].numpy())
    rows, keys, side = model.method.seen[0]
    assert rows == keys == side
    assert rows * n_samples % KERNEL_ROWS == 0
    assert rows - n < KERNEL_ROWS


def test_contracts_cannot_be_instantiated():
    for contract in (Encoder, Method):
        with pytest.raises(TypeError, match="abstract"):
            contract()


@pytest.mark.parametrize("denoiser", ["mlp", "transformer", "scale_heads"])
@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("n_samples", [1, 3])
def test_a_rows_answer_is_the_same_whatever_stands_beside_it(denoiser, width, n_samples):
    torch.manual_seed(0)
    encoder = TabularEncoder(5, [4], embedding="periodic", width=width)
    method = IncrementDiffusion(width, n_increments=4, width=width, n_layers=1, denoiser=denoiser)
    model = OrdinalModel(encoder, method).eval()
    x = torch.randn(70, 5), torch.randint(0, 4, (70, 1))
    keys = row_keys(x, 0)
    together = model.predict(x, keys, n_samples).samples
    for first, last in ((0, 1), (3, 5), (10, 17), (20, 36), (30, 70)):
        alone = model.predict(tuple(part[first:last] for part in x), keys[first:last], n_samples).samples
        np.testing.assert_allclose(alone, together[first:last], rtol=0, atol=1e-5)  # rounding of other kernels only


# Helpers of the contracts.


@pytest.mark.parametrize(("n", "multiple", "expected"), [(1, 16, 16), (16, 16, 16), (17, 16, 32), (5, 1, 5), (5, 2, 6)])
def test_fill_up_repeats_the_last_row(n, multiple, expected):
    rows = torch.arange(2 * n).reshape(n, 2)
    filled = fill_up(rows, multiple)
    assert filled.shape == (expected, 2)
    assert torch.equal(filled[:n], rows)
    assert (filled[n:] == rows[-1]).all()


def test_weighted_mean():
    values = torch.tensor([1.0, 2.0, 6.0])
    assert weighted_mean(values, None) == 3
    assert weighted_mean(values, torch.ones(3)) == 3
    assert weighted_mean(values, torch.tensor([1.5, 1.5, 0.0])) == 1.5
