"""A method that learns from several patches of a picture, most from those that it gets wrong."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from diffor.core.method import Method
from diffor.errors import UserError
from diffor.methods.baselines.bins import BinMethod
from diffor.methods.baselines.settings import check_counts, check_not_negative

N_PATCHES = 4
"""Patches that the encoder ``mpada-patches`` gives."""


class WeightedPatches(BinMethod):
    """A reconstruction: MPada (Sheng et al., 2018), each patch of a picture learns for itself, the wrong ones most.

    Known: one classifier answers for every patch; a patch's cross-entropy counts the more, the less probable it takes
    the true class to be ("larger weights to misclassified patches"); a prediction is the mean over the patches.
    Guessed: the weight is ``1 - probability ** sharpness`` without a gradient; ten classes of the score in place of the
    source's two. It runs without its weights, on features of ``encoder="mpada-patches"``, which hold the patches one
    after the other; other features are cut into ``n_patches`` pieces, four where that is possible and else one.

    >>> WeightedPatches(n_features=8, n_grades=3).patch_logits(torch.zeros(5, 8)).shape
    torch.Size([5, 4, 3])
    """

    title, paper, evidence = "MPada, without its weights", "Sheng et al., ACM MM 2018", "notes"

    def __init__(
        self, n_features: int, *, n_patches: int | None = None, sharpness: float = 1.0, n_grades: int | None = None,
        n_bins: int = 10, policy: str = "uniform",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        chosen = (1 if n_features % N_PATCHES else N_PATCHES) if n_patches is None else n_patches
        check_counts(n_patches=chosen)
        check_not_negative(sharpness=sharpness)
        if n_features % chosen:
            raise UserError(
                f"n_patches must divide the number of features, but got n_patches={n_patches}, n_features={n_features}"
            )
        self.n_patches, self.sharpness = chosen, sharpness
        self.head = nn.Linear(n_features // chosen, self.binning.n_bins)

    def patch_logits(self, features: Tensor) -> Tensor:
        """Logits of each patch. **Shape:** ``(n, patches * d)`` -> ``(n, patches, K)``."""
        each: Tensor = self.head(features.reshape(len(features) * self.n_patches, -1))
        return self.binning.mask(each).view(len(features), self.n_patches, -1)

    def logits(self, features: Tensor) -> Tensor:
        """Logarithm of the patches' mean probabilities. **Shape:** ``(n, d)`` -> ``(n, K)``."""
        return self.patch_logits(features).log_softmax(dim=2).logsumexp(dim=1)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean over patches of their weighted cross-entropy. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        each = self.patch_logits(features).flatten(0, 1)
        index = self.binning.index(y).repeat_interleave(self.n_patches)
        of_rows = None if weights is None else weights.repeat_interleave(self.n_patches)
        errors = cross_entropy(each, index, reduction="none") * self.attention(each, index)
        return {"patches": errors.mean() if of_rows is None else (errors * of_rows).mean()}

    def attention(self, logits: Tensor, index: Tensor) -> Tensor:
        """How much each patch counts, from 0 where it is right to 1. **Shape:** ``(m, K)``, ``(m,)`` -> ``(m,)``."""
        right = logits.detach().softmax(dim=1).gather(1, index[:, None])[:, 0]
        return 1 - right**self.sharpness if self.sharpness else torch.ones_like(right)

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the joint answer, which training does not use. **Shape:** ``(n, K)``, ``(n,)``."""
        return {"bins": cross_entropy(logits, self.binning.index(y), reduction="none")}


PATCH_METHODS: dict[str, type[Method]] = {"mpada": WeightedPatches}
"""Methods that read patches, by name."""
