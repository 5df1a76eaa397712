import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

from diffor.core.draws import ByteDropout, OwnDraws, own_generator

DRAWS = {
    "rand": lambda: torch.rand(5),
    "randn_like": lambda: torch.randn_like(torch.zeros(5)),
    "randint": lambda: torch.randint(0, 100, (5,)),
    "randperm": lambda: torch.randperm(9),
    "bernoulli": lambda: torch.bernoulli(torch.full((9,), 0.5)),
    "multinomial": lambda: torch.full((9,), 1 / 9).multinomial(3),
    "in place": lambda: torch.empty(5).uniform_() + torch.empty(5).normal_() + torch.empty(5).exponential_(),
    "linear": lambda: nn.Linear(3, 3).weight.detach(),
    "truncated": lambda: nn.init.trunc_normal_(torch.empty(6)),
    "orthogonal": lambda: nn.init.orthogonal_(torch.empty(3, 3)),
    "transformer": lambda: nn.TransformerEncoderLayer(8, 2, 8, dropout=0.5)(torch.ones(4, 3, 8)).detach(),
    "recurrent": lambda: nn.LSTM(3, 4, num_layers=2, dropout=0.5)(torch.ones(4, 2, 3))[0].detach(),
    "dropout": lambda: functional.dropout(torch.ones(50), 0.5),
    "channels": lambda: nn.Dropout2d(0.5)(torch.ones(4, 8, 2, 2)),
    "bytes": lambda: ByteDropout(0.5)(torch.ones(50)),
    "gumbel": lambda: functional.gumbel_softmax(torch.zeros(5)),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_numbers_are_those_of_the_seed_and_the_process_s_generator_stays_as_it_was(draw):
    torch.manual_seed(3)
    expected = [draw(), draw()]
    before = torch.manual_seed(11).get_state()
    with OwnDraws(3):
        found = [draw(), draw()]
    for first, second in zip(expected, found, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert torch.equal(torch.default_generator.get_state(), before)


def test_a_generator_that_is_passed_is_used():
    with OwnDraws(3):
        found = torch.rand(5, generator=torch.Generator().manual_seed(4))
    assert torch.equal(found, torch.rand(5, generator=torch.Generator().manual_seed(4)))


def test_threads_do_not_take_numbers_from_each_other():
    def draw(seed, found):
        with OwnDraws(seed) as own:
            barrier.wait()
            found[seed] = [functional.dropout(torch.ones(30), 0.5) + torch.rand(30) for _ in range(200)]
            own.seed(seed)
            found[seed].append(torch.rand(30))

    barrier, together, alone = threading.Barrier(3), {}, {}
    threads = [threading.Thread(target=draw, args=(seed, together)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    barrier = threading.Barrier(1)
    for seed in range(3):
        draw(seed, alone)
        assert all(torch.equal(*pair) for pair in zip(together[seed], alone[seed], strict=True))


def test_layers_that_ask_are_given_the_generator_and_others_are_left_alone():
    draws, layer = OwnDraws(5), ByteDropout(0.5)
    with draws.for_those_that_ask():
        assert own_generator() is draws.generator
        first = layer(torch.ones(64))
        assert torch.equal(torch.rand(4), torch.rand(4)) is False  # of the process
        draws.seed(5)
        assert torch.equal(layer(torch.ones(64)), first)
    assert own_generator() is None


# --- dropout by bytes ---


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
def test_drops_the_asked_share_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    out = ByteDropout(rate).train()(torch.ones(1000, 1003))
    assert (out == 0).float().mean() == pytest.approx(rate, abs=0.004)
    assert out.mean() == pytest.approx(1.0, abs=0.01)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    kept = (ByteDropout(0.5).train()(torch.ones(100_000, 8)) > 0).float()
    correlation = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlation.abs().max() < 0.02


def test_gradient_passes_where_the_element_was_kept():
    values = torch.ones(50, requires_grad=True)
    out = ByteDropout(0.5).train()(values)
    out.sum().backward()
    assert torch.equal(values.grad, out.detach())


def test_does_nothing_in_evaluation_and_at_rate_zero():
    values = torch.randn(7)
    assert ByteDropout(0.5).eval()(values) is values
    assert ByteDropout(0.0).train()(values) is values


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_refuses_rates_that_are_no_share(rate):
    with pytest.raises(ValueError, match=rf"dropout must lie in \[0, 1\), but got dropout={rate}"):
        ByteDropout(rate)
