import pytest
import torch

from diffor.core.draws import ByteDropout


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
