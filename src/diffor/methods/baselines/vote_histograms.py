"""Methods that learn from how people voted where that is known, not from the mean of their votes alone."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from diffor.core.method import Method, weighted_mean
from diffor.errors import UserError
from diffor.methods.baselines.bins import BinMethod

TOLERANCE = 0.01
"""How far means of votes may lie from the targets, as a share of the range: files round."""


class VoteMethod(BinMethod):
    """Bins that stand for scores where ``votes`` are given: counts of each row's votes, one column for each bin.

    The scores lie evenly from one end of the range to the other, so that ten votes from 1 to 10 need
    ``bounds=(1, 10)``. The distribution is then that of a *vote*, wider than what is known about their mean; its mean
    is the prediction. Predictions need no votes. Without votes it is as if all were in the target's bin.
    """

    learns_from = ("votes",)

    def prepare(self, y: Tensor, **side: Tensor) -> None:
        """Fit the bins, or make them scores, and start from their shares. **Shape:** ``(n,)``, votes ``(n, K)``."""
        votes = side.get("votes")
        if votes is None:
            super().prepare(y)
            return
        shares = self.vote_shares(votes)
        places = torch.linspace(0, 1, self.binning.n_bins, device=y.device)
        distance = float((shares @ places - y).abs().max())
        if distance > TOLERANCE:
            raise UserError(
                "the targets must be the means of their votes, with bounds that are the first and the last score, but "
                f"they differ by up to {distance:.3g} of the range; pass bounds=(1, {votes.shape[1]}), say"
            )
        self.binning.stand_at(places)
        with torch.no_grad():
            self.head.bias.copy_(((shares.sum(dim=0) + 1) / (len(y) + self.binning.n_bins)).log())

    def vote_shares(self, votes: Tensor) -> Tensor:
        """Each row's votes as shares. **Shape:** ``(n, K)``, kept."""
        if votes.ndim != 2 or votes.shape[1] != self.binning.n_bins:
            raise UserError(
                f"votes must have one column for each of n_bins={self.binning.n_bins} scores, but their shape is "
                f"{tuple(votes.shape)}; pass n_bins={votes.shape[-1] if votes.ndim == 2 else 10}"
            )
        total = votes.sum(dim=1, keepdim=True)
        if bool((votes < 0).any()) or not bool((total > 0).all()):
            raise UserError("votes must be counts, at least one in each row, but some are negative or rows have none")
        return votes / total

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Means of the terms, which know the votes where they are given. **Shape:** as in :class:`BinMethod`."""
        if "votes" not in side:
            return super().loss(features, y, weights)
        terms = self.vote_penalties(self.logits(features), y, self.vote_shares(side["votes"]))
        return {name: weighted_mean(rows, weights) for name, rows in terms.items()}

    @abstractmethod
    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Named loss terms of each row, given its votes. **Shape:** ``(n, K)``, ``(n,)``, ``(n, K)`` -> ``(n,)``."""


class EarthMover(VoteMethod):
    """NIMA (Talebi and Milanfar, 2018): the earth mover's distance between predicted and true histogram of scores.

    Ten bins of one width stand for the ten scores, or with ``votes`` the ten scores themselves.

    NOTE[DIFF]: where targets are single numbers there is no histogram, so the true one has all ratings in the target's
    bin.
    """

    title, paper, evidence = "NIMA", "Talebi and Milanfar, TIP 2018", "standard"

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 10, policy: str = "uniform"
    ) -> None:
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Earth mover's distance of each row to its bin."""
        return self.vote_penalties(logits, y, one_hot(self.binning.index(y), self.binning.n_bins).to(logits))

    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Earth mover's distance of each row to its histogram."""
        return {"earth-mover": earth_mover_distance(logits.softmax(dim=1), shares)}


def earth_mover_distance(probabilities: Tensor, target: Tensor) -> Tensor:
    """Root of the mean squared difference of the cumulative sums. **Shape:** ``(n, K)``, ``(n, K)`` -> ``(n,)``.

    >>> moved = earth_mover_distance(torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[0.0, 1, 0, 0]]))
    >>> [round(distance, 3) for distance in moved.tolist()]
    [0.5]
    """
    difference = (probabilities - target).cumsum(dim=1)
    return (difference.square().mean(dim=1) + 1e-10).sqrt()  # the root has no slope at zero


VOTE_METHODS: dict[str, type[Method]] = {"nima": EarthMover}
"""Methods whose own target is a histogram of votes, by name."""
