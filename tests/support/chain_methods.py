"""Small methods with a chain, untrained or with a denoiser that is known, which tests of the paper's theory share."""

import torch

from diffor.core.row_noise import row_keys
from diffor.methods.diffor import IncrementDiffusion

SMALL = {
    "n_increments": 4, "width": 16, "n_layers": 1, "denoiser": "mlp", "schedule": "cosine", "decoding": "chain",
    "parameterization": "velocity",
}  # fmt: skip


class Known(torch.nn.Module):
    """A denoiser that is a function of what it sees and of the time."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, noisy, features, t):
        return self.answer(noisy, t)


def make_method(answer=None, **settings):
    """A method on two features; ``answer`` estimates clean vectors in place of its network."""
    torch.manual_seed(0)
    known = {} if answer is None else {"parameterization": "clean"}
    method = IncrementDiffusion(2, **{**SMALL, **known, **settings}).eval()
    if answer is not None:
        method.denoiser = Known(answer)
    return method


def make_rows(n=50):
    """Features, targets in [0, 1] and keys of rows."""
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(n, 2, generator=generator)
    return features, torch.rand(n, generator=generator), row_keys((features,), 0)
