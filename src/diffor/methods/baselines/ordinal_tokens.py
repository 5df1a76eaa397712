"""GoR, the method of tokens for ordered targets of every kind, with the vocabularies of its own ablation."""

from __future__ import annotations

from torch import Tensor

from diffor.core.method import Method
from diffor.methods.baselines.settings import check_below_one, check_choice, check_positive, check_share
from diffor.methods.baselines.tokens import GenerativeRegression
from diffor.methods.baselines.vocabulary import (
    binary_values,
    dynamic_quantile_values,
    manual_values,
    prune,
    thin_out,
    with_even_quantiles,
)

VOCABULARIES = ("pruned", "quantile", "binary", "manual")


class GenerativeOrdinal(GenerativeRegression):
    """A reconstruction: GoR, which is GR with a pruned vocabulary and sequences that end when little is left.

    Known, from notes on Ma et al. (2026) and the code of GR before it: a large vocabulary of quantiles is pruned by how
    much each token contributes and distinguishes, all targets being written anew after each removal; sequences take the
    largest value that fits and end when little is left; decoder, curriculum with mixed embeddings and the value read in
    a window are GR's; the loss is the tokens' likelihood plus Huber's of the value. Guessed: how many tokens stay
    (``retention``), when a sequence ends (``tolerance``), the weight of the value (``value_weight``). Left out: a
    penalty on repeated tokens and preference tuning, which the notes name as extras.

    Its own ablation is in the settings: ``vocabulary`` may be ``"quantile"`` (nothing is pruned), ``"binary"`` (powers
    of two) or ``"manual"`` (1, 2 and 5 of each power of ten); ``first_teacher_share=1, decay=1`` with ``mixup=False``
    is teacher forcing alone.

    **Shape:** features ``(n, d)`` -> sequences of at most ``n_steps`` tokens.
    """

    family, title = "tokens", "GoR"
    paper, evidence = "Ma et al., ICLR 2026", "notes"
    tasks = ("value", "grades")

    def __init__(
        self, n_features: int, *, n_units: int = 10_000, max_values: int = 128, n_steps: int = 19, width: int = 128,
        n_layers: int = 3, n_heads: int = 8, n_hidden: int = 256, dropout: float = 0.1, window: int = 20,
        token_weight: float = 1.0, value_weight: float = 0.1, schedule: str = "exponential",
        first_teacher_share: float = 0.5, decay: float = 0.9999, mixup: bool = True, retention: float = 0.5,
        tolerance: float = 1e-3, vocabulary: str = "pruned",
    ) -> None:  # fmt: skip
        check_choice(VOCABULARIES, vocabulary=vocabulary)
        check_positive(retention=retention)
        check_share(retention=retention)
        check_below_one(tolerance=tolerance)
        super().__init__(
            n_features, n_units=n_units, max_values=max_values, n_steps=n_steps, width=width, n_layers=n_layers,
            n_heads=n_heads, n_hidden=n_hidden, dropout=dropout, window=window, token_weight=token_weight,
            value_weight=value_weight, schedule=schedule, first_teacher_share=first_teacher_share, decay=decay,
            mixup=mixup,
        )  # fmt: skip
        self.retention, self.tolerance, self.vocabulary = retention, tolerance, vocabulary

    def build_vocabulary(self, units: Tensor) -> list[int]:
        """Dynamic and even quantiles, as many as there is room for, pruned; or what ``vocabulary`` names."""
        largest = max(int(units.max()), 1)
        if self.vocabulary == "binary":
            return binary_values(largest)
        if self.vocabulary == "manual":
            return manual_values(largest)
        values = with_even_quantiles(dynamic_quantile_values(units), units, self.max_values // 2)
        values = thin_out(values, self.max_values)
        if self.vocabulary == "quantile":
            return values
        return prune(values, units, self.retention, self.tolerance, self.n_steps)


ORDINAL_TOKEN_METHODS: dict[str, type[Method]] = {"gor": GenerativeOrdinal}
"""Methods of tokens for ordered targets, by name."""
