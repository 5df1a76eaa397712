"""Methods that predict an uncertain embedding, ordered as the targets are."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, cross_entropy

from diffor.core.method import weighted_mean
from diffor.methods.baselines.bins import BinMethod
from diffor.methods.baselines.settings import check_below_one, check_counts, check_not_negative


class ProbabilisticEmbeddings(BinMethod):
    """POE (Li et al., 2021), from the authors' code: a normal embedding for each row, drawn several times.

    Each draw is classified into bins. Embeddings are held near the standard normal, and distances between them
    (symmetric divergences) are to be ordered as the distances between the targets' bins.

    NOTE[DIFF]: ten draws, not fifty, because rows of a table come a thousand at a time, not 32. When predicting, all
    rows share fixed draws, so that a row's answer depends on nothing but the row.

    **Shape:** features ``(n, d)``, embeddings ``(n, d)``.
    """

    family, title = "embeddings", "POE"
    paper, evidence = "Li et al., CVPR 2021", "code"
    draws: Tensor

    def __init__(
        self, n_features: int, *, n_draws: int = 10, prior_weight: float = 1e-4, order_weight: float = 1e-4,
        margin: float = 5.0, dropout: float = 0.5, n_grades: int | None = None, n_bins: int = 50,
        policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_counts(n_draws=n_draws)
        check_not_negative(prior_weight=prior_weight, order_weight=order_weight, margin=margin)
        check_below_one(dropout=dropout)
        self.prior_weight, self.order_weight, self.margin = prior_weight, order_weight, margin
        self.centre = nn.Linear(n_features, n_features)
        self.log_variance = nn.Linear(n_features, n_features, bias=False)  # the normalisation would undo a bias
        self.norm = nn.BatchNorm1d(n_features, eps=1e-3, affine=False)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("draws", torch.randn(n_draws, n_features, generator=torch.Generator().manual_seed(0)))

    def embed(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Centre and log variance of each embedding. **Shape:** ``(n, d)`` -> ``(n, d)``, ``(n, d)``."""
        # One row has no variance to normalise by, so it is taken as when predicting.
        norm, learns = self.norm, self.training and len(features) > 1
        log_variance = batch_norm(
            self.log_variance(features), norm.running_mean, norm.running_var, training=learns, eps=norm.eps
        )
        return torch.relu(self.centre(features)), log_variance

    def classify(self, centre: Tensor, log_variance: Tensor, draws: Tensor) -> Tensor:
        """Logits of the bins for each draw. **Shape:** ``(n, d)``, ``(n, d)``, ``(n or 1, T, d)`` -> ``(n, T, K)``."""
        embeddings = centre[:, None] + (log_variance / 2).exp()[:, None] * draws
        return self.logits(self.dropout(embeddings))

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy, mean over the draws. **Shape:** ``(n, T, K)``, ``(n,)`` -> ``(n,)``."""
        index = self.binning.index(y)[:, None].expand(logits.shape[:2])
        return {"bins": cross_entropy(logits.flatten(0, 1), index.flatten(), reduction="none").view_as(index).mean(1)}

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the draws, prior, order of triplets. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)``."""
        if weights is not None and bool((weights > 0).any()):
            # Statistics of the batch and neighbours know no rows of weight zero; the weighted mean stays as it was.
            kept = weights > 0
            features, y, weights = features[kept], y[kept], weights[kept] * (kept.sum() / len(kept))
        centre, log_variance = self.embed(features)
        draws = torch.randn(len(y), *self.draws.shape, device=features.device, dtype=features.dtype)
        terms = self.penalties(self.classify(centre, log_variance, draws), y)
        order = triplet_penalty(centre, log_variance, self.binning.index(y), self.margin, weights)
        prior = (centre.square() + log_variance.exp() - log_variance - 1).sum(dim=1) / 2  # from the standard normal
        return {
            "bins": weighted_mean(terms["bins"], weights),
            "prior": self.prior_weight * weighted_mean(prior, weights),
            "order": self.order_weight * order,
        }

    def probabilities(self, features: Tensor) -> Tensor:
        """Mean over the draws of the bins' probabilities."""
        return self.classify(*self.embed(features), self.draws[None]).softmax(dim=2).mean(dim=1)


def symmetric_divergence(centres: tuple[Tensor, Tensor], log_variances: tuple[Tensor, Tensor]) -> Tensor:
    """Sum of the two divergences between diagonal normals. **Shape:** ``(n, d)`` each -> ``(n,)``."""
    difference = log_variances[0] - log_variances[1]
    precisions = (-log_variances[0]).exp() + (-log_variances[1]).exp()
    moved = (centres[0] - centres[1]).square() * precisions
    return (difference.exp() + (-difference).exp() - 2 + moved).sum(dim=1) / 2


def triplets(index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each row the next one, a third, and which of the two is to be nearer.

    The third is the row whose distance in bins is closest to the next row's without being equal to it; the sign is 1
    where the third is to be nearer, -1 where the next is, and 0 where there is no such row.

    **Shape:** ``(n,)`` -> ``(n,)`` each.
    """
    n = len(index)
    second = (torch.arange(n, device=index.device) + 1) % n
    distance = (index[:, None] - index[None, :]).abs()
    to_second = distance.gather(1, second[:, None])
    excess = (distance - to_second).abs()
    is_unfit = (excess == 0) | torch.eye(n, dtype=torch.bool, device=index.device)
    third = excess.masked_fill(is_unfit, torch.iinfo(excess.dtype).max).argmin(dim=1)
    sign = (to_second - distance.gather(1, third[:, None])).sign()[:, 0]
    return second, third, sign.masked_fill(is_unfit.all(dim=1), 0)


def triplet_penalty(
    centre: Tensor, log_variance: Tensor, index: Tensor, margin: float, weights: Tensor | None = None
) -> Tensor:
    """Mean over the triplets in the wrong order of how far they are from the right one by ``margin``.

    **Shape:** ``(n, d)``, ``(n, d)``, ``(n,)``, weights ``(n,)`` -> a scalar.
    """
    second, third, sign = triplets(index)
    to_second = symmetric_divergence((centre, centre[second]), (log_variance, log_variance[second]))
    to_third = symmetric_divergence((centre, centre[third]), (log_variance, log_variance[third]))
    shortfall = (sign * (to_third - to_second) + margin).clamp(min=0)
    counted = ((shortfall > 0) & (sign != 0)).to(shortfall)
    if weights is not None:
        counted = counted * weights * weights[second] * weights[third]
    return (counted * shortfall).sum() / counted.sum().clamp(min=torch.finfo(shortfall.dtype).tiny)
