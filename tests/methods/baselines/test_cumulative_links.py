import numpy as np
import pytest
import torch
from scipy.stats import norm

from diffor.methods.baselines.cumulative_links import LINKS, OrderedLogit, inverse_link, rank_log_probabilities


def test_golden_likelihood_of_the_cumulative_link():
    log_probabilities = rank_log_probabilities(torch.tensor([0.4, -1.0]), torch.tensor([-1.0, 0.0, 0.5, 2.0]), "logit")
    chosen = log_probabilities.gather(1, torch.tensor([[1], [3]]))
    assert -chosen.mean().item() == pytest.approx(1.797295, abs=1e-6)


@pytest.mark.parametrize("link", LINKS)
def test_links_agree_with_differences_of_their_functions_and_are_finite_far_in_the_tails(link):
    functions = {
        "logit": lambda x: 1 / (1 + np.exp(-x)),
        "probit": norm.cdf,
        "cloglog": lambda x: 1 - np.exp(-np.exp(x)),
    }
    score, thresholds = np.array([-1.3, 0.0, 0.8]), np.array([-1.5, -0.2, 0.1, 1.4])
    cumulative = functions[link](thresholds - score[:, None])
    answer = rank_log_probabilities(torch.tensor(score), torch.tensor(thresholds), link)
    assert answer.exp().numpy() == pytest.approx(np.diff(cumulative, axis=1, prepend=0, append=1))
    assert torch.allclose(inverse_link(torch.tensor(cumulative), link), torch.tensor(thresholds - score[:, None]))
    scores = torch.tensor([-50.0, -9.0, 9.0, 50.0], requires_grad=True)
    log_probabilities = rank_log_probabilities(scores, torch.tensor([-1.0, 0.0, 1.0]), link)
    assert torch.isfinite(log_probabilities).all()
    assert (log_probabilities <= 0).all()
    for rank in range(4):
        (gradient,) = torch.autograd.grad(log_probabilities[:, rank].sum(), scores, retain_graph=True)
        assert torch.isfinite(gradient).all()


def test_a_hopeless_row_still_pulls_its_score_back():
    method = OrderedLogit(1, n_grades=3)
    method.prepare(torch.tensor([0.0, 0.5, 1.0]))
    with torch.no_grad():
        method.score.weight.fill_(40.0)
    method.loss(torch.tensor([[1.0]]), torch.tensor([0.0]))["likelihood"].backward()
    assert method.score.weight.grad.item() == pytest.approx(1.0, abs=1e-3)


def test_thresholds_rise_by_the_least_distance():
    method = OrderedLogit(2, n_grades=6, min_distance=0.1)
    with torch.no_grad():
        method.steps.zero_()
    assert method.thresholds.diff().tolist() == pytest.approx([0.1] * 4)
