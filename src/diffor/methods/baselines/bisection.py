"""Ord2Seq: the class of a target found by halving the range of classes, again and again."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from diffor.core.method import weighted_mean
from diffor.methods.baselines.binning import BinnedMethod
from diffor.methods.baselines.sequence_decoder import Seen, SequenceDecoder


def bisection_nodes(n_classes: int) -> Tensor:
    """The node that each class belongs to after each halving, the root before the first.

    Nodes are numbered as in a heap: the root is 1, the children of node k are 2k and 2k + 1. Where the number of
    classes is no power of two, the lower side of the tree is the thinner one.

    **Shape:** -> ``(S + 1, K)`` with ``S = ceil(log2 K)``.

    >>> bisection_nodes(5).tolist()  # 0 | 1 2 3 4, then 0 | 1 2 | 3 4, then all apart
    [[1, 1, 1, 1, 1], [2, 3, 3, 3, 3], [5, 6, 6, 7, 7], [11, 12, 13, 14, 15]]
    """
    n_halvings = (n_classes - 1).bit_length()
    leaves = torch.arange(n_classes) + 2 ** (n_halvings + 1) - n_classes
    return torch.stack([leaves >> (n_halvings - step) for step in range(n_halvings + 1)])


class BisectionSequence(BinnedMethod):
    """Ord2Seq (Wang et al., 2023): a decoder that names first the half, then the quarter, ... then the class.

    Its last step gives the distribution. On the way, classes outside the node that was decided on are set to a logit of
    zero, as the authors do; in the last step they are not, which the authors found better.

    NOTE[DIFF]: the features are the one memory of a small decoder, where the authors give the tokens of a feature map
    to six layers of 512.

    **Shape:** features ``(n, d)`` -> ``(n, S, K)`` logits.
    """

    family, title = "tokens", "Ord2Seq"
    paper, evidence, native_statistic = "Wang et al., ICCV 2023", "code", "mean"
    nodes: Tensor

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile",
        width: int = 128, n_layers: int = 3, n_heads: int = 8, n_hidden: int = 256, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__(n_grades, n_bins, policy)
        nodes = bisection_nodes(self.binning.n_bins)
        self.register_buffer("nodes", nodes, persistent=False)
        # Every node that is read is a token; the root begins the sequence, and the leaves are never read.
        self.decoder = SequenceDecoder(
            n_features, n_tokens=int(nodes[-2].max()) + 1, width=width, n_layers=n_layers, n_heads=n_heads,
            n_hidden=n_hidden, dropout=dropout,
        )  # fmt: skip
        self.outputs = nn.ModuleList(nn.Linear(width, self.binning.n_bins) for _ in range(len(nodes) - 1))

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of every class with whether it lies in the true node, summed over the steps.

        Each step reads the true node of the step before.
        """
        index = self.binning.index(y)
        read = self.decoder.embedding(self.nodes[:-1, index].T)  # (n, S, width)
        hidden, _ = self.decoder(read, self.decoder.remember(features))
        logits = torch.stack([output(hidden[:, step]) for step, output in enumerate(self.outputs)], dim=1)
        inside = self.nodes[1:] == self.nodes[1:, index].T.unsqueeze(-1)  # (n, S, K)
        each = binary_cross_entropy_with_logits(logits, inside.to(logits), reduction="none")
        return {"bisection": weighted_mean(each.mean(dim=2).sum(dim=1), weights)}

    def probabilities(self, features: Tensor) -> Tensor:
        """Softmax of the last step, after the nodes that the steps before decided on."""
        return self.binning.mask(self.decode(features)).softmax(dim=1)

    def decode(self, features: Tensor) -> Tensor:
        """Logits of the last step. **Shape:** ``(n, d)`` -> ``(n, K)``."""
        memory = self.decoder.remember(features)
        seen: list[Seen] | None = None
        node = self.nodes[0, 0].expand(len(features))
        for step, output in enumerate(self.outputs):
            hidden, seen = self.decoder(self.decoder.embedding(node).unsqueeze(1), memory, seen)
            logits: Tensor = output(hidden[:, 0])
            if step < len(self.outputs) - 1:
                node = self.nodes[step + 1][self.favourite(logits, node, step)]
        return logits

    def favourite(self, logits: Tensor, node: Tensor, step: int) -> Tensor:
        """A class in the node to go to next. **Shape:** ``(n, K)``, ``(n,)`` -> ``(n,)``."""
        if step > 0:
            return (logits * (self.nodes[step] == node[:, None])).argmax(dim=1)
        same = (self.nodes[1] == self.nodes[1][:, None]).to(logits)  # the first step goes by the mass of each half
        return (logits.softmax(dim=1) @ same).argmax(dim=1)
