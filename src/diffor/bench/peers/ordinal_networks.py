"""CORAL and CORN, with the losses of their authors' package, on our table encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from diffor.bench.peers.gradient_loop import NetworkSettings, TableNetwork, reproducible, train_table_network
from diffor.bench.peers.problem import Peer, Problem, Values, from_grade_probabilities
from diffor.core.prediction import Prediction
from diffor.encoders import TabularInputs
from diffor.errors import UserError
from diffor.training.loop import limit_threads

Exceed = Callable[[Tensor], Tensor]
"""From the logits of the grades' borders to the probabilities of a grade above each. **Shape:** ``(n, grades - 1)``."""


def exceed_of_cumulative(logits: Tensor) -> Tensor:
    """CORAL's logits are those of the probabilities themselves. **Shape:** ``(n, grades - 1)``, kept."""
    return logits.sigmoid()


def exceed_of_conditional(logits: Tensor) -> Tensor:
    """CORN's logits are those of passing one border after having passed all before. **Shape:** as the logits.

    >>> exceed_of_conditional(torch.zeros(1, 3)).tolist()
    [[0.5, 0.25, 0.125]]
    """
    return logsigmoid(logits).cumsum(dim=1).exp()


def grade_probabilities(exceed: Tensor) -> Values:
    """Differences of the probabilities of a grade above each border, where they fall; normalised.

    **Shape:** ``(n, grades - 1)`` -> ``(n, grades)``.

    >>> grade_probabilities(torch.tensor([[0.75, 0.25]])).tolist()
    [[0.25, 0.5, 0.25]]
    """
    above = exceed.double().numpy()
    ends = np.ones((len(above), 1)), np.zeros((len(above), 1))
    falls = np.clip(-np.diff(np.concatenate([ends[0], above, ends[1]], axis=1), axis=1), 0, None)
    return np.asarray(falls / falls.sum(axis=1, keepdims=True))


def ranked_probability_score(exceed: Tensor, levels: Tensor) -> Tensor:
    """Mean over rows of the squared errors of the probabilities above each border. **Shape:** ``(n, grades - 1)``."""
    return (exceed - levels).square().sum(dim=1).mean()


@dataclass(frozen=True)
class OrdinalNetwork:
    """A fitted network with a logit for each border between grades."""

    inputs: TabularInputs
    network: TableNetwork
    exceed: Exceed
    n_samples: int
    n_threads: int

    def probabilities(self, x: pd.DataFrame) -> Values:
        """Probability of each grade. **Shape:** -> ``(n, grades)``."""
        with limit_threads(self.n_threads):
            return grade_probabilities(self.exceed(self.network.outputs(*self.inputs.transform(x))))

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Grade codes in the shares of their probabilities."""
        return from_grade_probabilities(self.probabilities(x), self.n_samples)


def fit_coral(problem: Problem, **settings: object) -> OrdinalNetwork:
    """Train CORAL: one direction in the features and a border of its own for each grade."""
    coral, n_grades = _coral_pytorch(), _count_grades(problem, "coral")

    def make_head(width: int) -> nn.Module:
        # The package's own start lies in [0, 1], from where the borders of small tables do not arrive before training
        # must stop: they start where they fit the grades' shares instead.
        head: nn.Module = coral.layers.CoralLayer(width, n_grades)
        above = [(problem.y > border).mean() for border in range(n_grades - 1)]
        shares = torch.tensor(above).clamp(1 / (len(problem.y) + 1), 1 - 1 / (len(problem.y) + 1))
        head.coral_bias.data.copy_(shares.logit())  # type: ignore[operator]
        return head

    def loss(logits: Tensor, levels: Tensor) -> Tensor:
        value: Tensor = coral.losses.coral_loss(logits, levels)
        return value

    return _fit(problem, n_grades, make_head, loss, exceed_of_cumulative, settings)


def fit_corn(problem: Problem, **settings: object) -> OrdinalNetwork:
    """Train CORN: for each border, the probability of passing it among the rows that passed all before."""
    coral, n_grades = _coral_pytorch(), _count_grades(problem, "corn")

    def loss(logits: Tensor, levels: Tensor) -> Tensor:
        value: Tensor = coral.losses.corn_loss(logits, levels.sum(dim=1), n_grades)
        return value

    return _fit(problem, n_grades, lambda width: nn.Linear(width, n_grades - 1), loss, exceed_of_conditional, settings)


def _fit(
    problem: Problem,
    n_grades: int,
    make_head: Callable[[int], nn.Module],
    loss: Callable[[Tensor, Tensor], Tensor],
    exceed: Exceed,
    settings: dict[str, object],
) -> OrdinalNetwork:
    """Train on the levels of the grades, stopping on the ranked probability score."""
    inputs = TabularInputs().fit(problem.x)
    # The package makes levels one label at a time, so each grade's are made once and looked up.
    levels = _coral_pytorch().dataset.levels_from_labelbatch(range(n_grades), n_grades)
    train = (*inputs.transform(problem.x), levels[problem.y.astype(np.int64)])
    valid = (*inputs.transform(problem.x_valid), levels[problem.y_valid.astype(np.int64)])
    with reproducible(problem.seed, problem.n_threads):
        network = train_table_network(
            inputs,
            make_head,
            loss,
            train,
            valid,
            NetworkSettings(**settings),  # type: ignore[arg-type]
            score=lambda logits, levels: ranked_probability_score(exceed(logits), levels),
        )
    return OrdinalNetwork(inputs, network, exceed, problem.n_samples, problem.n_threads)


def _count_grades(problem: Problem, name: str) -> int:
    if problem.n_grades is None:
        raise UserError(
            f"{name} needs ordered grades, but got n_grades=None; give it a problem with grades, "
            "or a method for values such as mdn"
        )
    return problem.n_grades


def _coral_pytorch() -> Any:
    try:
        import coral_pytorch
        import coral_pytorch.dataset
        import coral_pytorch.layers
        import coral_pytorch.losses
    except ImportError as error:
        raise ImportError('coral and corn need coral-pytorch: pip install "diffor[bench]"') from error
    return coral_pytorch


ORDINAL_NETWORKS: tuple[Peer, ...] = (
    Peer("coral", "CORAL (Cao 2020) on our encoder", ("grades",), fit_coral, package="coral-pytorch"),
    Peer("corn", "CORN (Shi 2021) on our encoder", ("grades",), fit_corn, package="coral-pytorch"),
)
"""Networks for ordered grades."""
