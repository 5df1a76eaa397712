"""Networks filled with saved tensors: sketched first, so that none is made that the tensors cannot fill."""

import resource
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn

from diffor.estimators.filling import LARGE, Sketching, check_agreement, check_finite, filled
from diffor.files.schema import MisfitError


def layers(*widths):
    return lambda: nn.Sequential(*(nn.Linear(*pair) for pair in pairwise(widths)))


def test_a_network_comes_back_as_it_was():
    torch.manual_seed(0)
    known = layers(3, 4, 2)()
    state = torch.random.get_rng_state()
    again = filled(layers(3, 4, 2), known.state_dict())
    assert all(torch.equal(part, again.state_dict()[name]) for name, part in known.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "make",
    [
        layers(10**5, 10**5),  # 40 GB, if it were made
        layers(*[3] * 2000),
        lambda: nn.Embedding(10**9, 64),
        lambda: nn.ModuleList(nn.Linear(3, 3) for _ in iter(int, 1)),  # without end
        lambda: nn.BatchNorm1d(10**9),
    ],
)
def test_what_the_tensors_cannot_fill_is_given_up_before_it_is_made(make):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MisfitError, match="asks for a larger network than the weights are of"):
        filled(make, layers(3, 4)().state_dict())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024  # KiB
    nn.Linear(2000, 2000)  # networks of others are not watched afterwards


def test_large_tensors_of_a_sketch_have_no_memory_and_small_ones_do():
    with Sketching():
        large, small, drawn = torch.zeros(LARGE + 1), torch.zeros(3), torch.randn(2, LARGE)
        scaled = 0.1 * drawn
    assert [part.device.type for part in (large, small, drawn, scaled)] == ["meta", "cpu", "meta", "meta"]
    assert drawn.shape == scaled.shape == (2, LARGE)


def test_sketching_does_not_import_the_compiler_of_torch():
    code = (
        "import sys, torch; from torch import nn; from diffor.estimators.filling import filled\n"
        "filled(lambda: nn.Embedding(200_000, 32), {'weight': torch.zeros(200_000, 32)})\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("0.bias"), "the weights lack 0.bias"),
        (lambda state: state.update(x=torch.zeros(1)), "the weights hold what no network has: x"),
        (lambda state: state.update({"0.bias": torch.zeros(1, 4)}), r"0.bias must be float32 of shape \(4,\), but is"),
        (lambda state: state.update({"0.bias": torch.zeros(4).half()}), r"but is float16 of shape \(4,\)"),
    ],
)
def test_tensors_must_agree_with_the_network_in_name_shape_and_kind(change, message):
    state = dict(layers(3, 4)().state_dict())
    check_agreement(layers(3, 4)().state_dict(), state)
    change(state)
    with pytest.raises(MisfitError, match=message):
        filled(layers(3, 4), state)


def test_infinity_is_let_through_where_a_new_network_has_it():
    class Cuts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cuts", torch.full((2,), torch.inf))

    assert filled(Cuts, {"cuts": torch.tensor([1.0, torch.inf])}).cuts.tolist() == [1.0, torch.inf]
    with pytest.raises(MisfitError, match="cuts must hold finite numbers"):
        filled(Cuts, {"cuts": torch.tensor([1.0, torch.nan])})
    with pytest.raises(MisfitError, match="x must hold finite numbers"):
        check_finite({"x": torch.tensor([torch.inf])})
    with pytest.raises(MisfitError, match="n must hold counts or places from 0 on, but some are negative"):
        check_finite({"n": torch.tensor([-1])})
