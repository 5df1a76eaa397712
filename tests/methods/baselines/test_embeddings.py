import method_checks
import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from diffor.methods.baselines.embeddings import (
    ProbabilisticEmbeddings,
    symmetric_divergence,
    triplet_penalty,
    triplets,
)


def make(task, **settings):
    return method_checks.make_method(ProbabilisticEmbeddings, task, **settings)


def random_normals(n_rows, n_dimensions, seed):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n_rows, n_dimensions, generator=generator),
        torch.randn(n_rows, n_dimensions, generator=generator),
    )


def as_torch_normal(centre, log_variance):
    return Independent(Normal(centre, (log_variance / 2).exp()), 1)


def test_divergences_agree_with_torch():
    first, second = random_normals(5, 3, seed=0), random_normals(5, 3, seed=1)
    p, q = as_torch_normal(*first), as_torch_normal(*second)
    both = symmetric_divergence((first[0], second[0]), (first[1], second[1]))
    assert torch.allclose(both, kl_divergence(p, q) + kl_divergence(q, p), rtol=1e-4)
    method, (features, y) = make("value", dropout=0.0, prior_weight=1.0), method_checks.make_rows("value")
    standard = as_torch_normal(torch.zeros(64, 6), torch.zeros(64, 6))
    expected = kl_divergence(as_torch_normal(*method.embed(features)), standard).mean()
    assert torch.isclose(method.loss(features, y)["prior"], expected, rtol=1e-4)


def test_triplets_by_hand():
    second, third, sign = triplets(torch.tensor([0, 2, 2, 5]))
    assert second.tolist() == [1, 2, 3, 0]
    # Row 0 is 2 from its next; rows 1 and 2 are as far, so row 3, at 5, is the third, and the next is to be nearer.
    # Row 1 is 0 from its next; row 0, at 2, is nearest to that. Row 2 is 3 from row 3; row 0, at 2, is nearest.
    # Row 3 is 5 from row 0; rows 1 and 2 are at 3, and the first of them is taken.
    assert third.tolist() == [3, 0, 0, 1]
    assert sign.tolist() == [-1, -1, 1, 1]
    # Rows that are all alike make none.
    assert triplets(torch.tensor([3, 3, 3]))[2].tolist() == [0, 0, 0]
    assert triplets(torch.tensor([1]))[2].tolist() == [0]
    centre, log_variance = random_normals(3, 2, seed=0)
    assert triplet_penalty(centre, log_variance, torch.tensor([3, 3, 3]), margin=5.0).item() == 0


def test_the_triplet_penalty_by_hand():
    # With unit variances the divergence is the squared distance of the centres.
    centre, log_variance = torch.tensor([[0.0], [1.0], [3.0]]), torch.zeros(3, 1)
    index = torch.tensor([0, 1, 3])
    # Triplets (0, 1, 2), (1, 2, 0), (2, 0, 1) with the sign -1, 1, 1 and distances (1, 9), (4, 1), (9, 4):
    # shortfalls of a margin of 5 are -8 + 5, -3 + 5 and -5 + 5, so only the second is counted.
    assert triplet_penalty(centre, log_variance, index, margin=5.0).item() == pytest.approx(2.0)
    # A margin of 6 counts the second and the third: 3 and 1.
    assert triplet_penalty(centre, log_variance, index, margin=6.0).item() == pytest.approx(2.0)
    weights = torch.tensor([1.0, 1.0, 0.5])
    assert triplet_penalty(centre, log_variance, index, 6.0, weights).item() == pytest.approx(2.0)


def test_the_terms_have_the_weights_of_the_source():
    method = make("grades", dropout=0.0)
    heavier = make("grades", dropout=0.0, prior_weight=2e-4, order_weight=3e-4)
    heavier.load_state_dict(method.state_dict())
    features, y = method_checks.make_rows("grades")
    torch.manual_seed(3)
    light = method.loss(features, y)
    torch.manual_seed(3)
    heavy = heavier.loss(features, y)
    assert heavy["bins"].item() == pytest.approx(light["bins"].item())
    assert heavy["prior"].item() == pytest.approx(2 * light["prior"].item())
    assert heavy["order"].item() == pytest.approx(3 * light["order"].item())
    assert light["order"] > 0


def test_one_row_can_be_learnt_from():
    method = make("value")
    loss = method_checks.total_loss(method, torch.randn(1, 6), torch.tensor([0.3]))
    assert torch.isfinite(loss)
