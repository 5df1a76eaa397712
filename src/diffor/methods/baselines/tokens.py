"""Methods that write the target as a sequence of tokens, each after those before it: GR, and GoR after it."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from diffor.core.method import Method, weighted_mean
from diffor.core.prediction import Prediction
from diffor.core.row_noise import key_uniforms, sample_order
from diffor.errors import check_choice, check_share
from diffor.methods.baselines.sequence_decoder import Seen, SequenceDecoder
from diffor.methods.baselines.settings import check_below_one, check_counts, check_not_negative, check_positive
from diffor.methods.baselines.vocabulary import (
    END,
    N_SPECIAL,
    PADDING,
    START,
    dynamic_quantile_values,
    greedy_counts,
    prune,
    serialise,
    thin_out,
    with_even_quantiles,
)

SCHEDULES = ("linear", "exponential", "sigmoid")
VOCABULARIES = ("pruned", "quantile", "binary", "manual")
UNUSABLE = -1e4
"""Logit of a token that cannot be: finite, so that its gradient is."""


def windowed_value(probabilities: Tensor, values: Tensor, half_window: int) -> Tensor:
    """Sum of probability times value over the tokens that stand near the likeliest one in the vocabulary.

    **Shape:** ``(..., V)``, ``(V,)`` -> ``(...)``.
    """
    places = torch.arange(len(values), device=values.device)
    near = (places - probabilities.argmax(dim=-1, keepdim=True)).abs() <= half_window
    return (probabilities * near * values).sum(dim=-1)


def teacher_share(schedule: str, start: float, decay: float, step: int) -> float:
    """Probability that the true token, not the model's own, is read next; it falls from step to step.

    ``decay`` is what the linear schedule subtracts, the factor of the exponential one, and the length of the sigmoid's
    plateau in steps.
    """
    if schedule == "linear":
        return max(start - decay * step, 0.0)
    if schedule == "exponential":
        return start * decay**step
    return start * decay / (decay + math.exp(min(step / decay, 700.0)))


class GenerativeRegression(Method):
    """GR (Ma et al., 2024): the target as a falling sequence of token values that add up to it.

    - Targets are counted in ``n_units`` units of their range; the vocabulary comes from their quantiles.
    - Training passes twice through the decoder: the second time, tokens are replaced by what the first would have
      written, at each place with a probability that grows with the steps. With ``mixup`` the replacement is the average
      of all token embeddings by their probabilities.
    - The native value adds, at each step, the values near the likeliest token by their probabilities. The distribution
      consists of sequences drawn token by token.

    **Shape:** features ``(n, d)`` -> sequences of at most ``n_steps`` tokens.
    """

    family, title = "watch time", "GR"
    paper, evidence, native_statistic = "Ma et al., 2024", "code", "own"
    tasks: ClassVar[tuple[str, ...]] = ("value",)
    tolerance: float = 0.0
    """Share of a target that its sequence may leave out."""

    values: Tensor
    usable: Tensor
    n_updates: Tensor

    def __init__(
        self, n_features: int, *, n_units: int = 1000, max_values: int = 64, n_steps: int = 19, width: int = 128,
        n_layers: int = 3, n_heads: int = 8, n_hidden: int = 256, dropout: float = 0.1, window: int = 20,
        token_weight: float = 10.0, value_weight: float = 1.0, schedule: str = "exponential",
        first_teacher_share: float = 0.5, decay: float = 0.9999, mixup: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        # NOTE[DIFF]: the authors' default, a linear fall by 0.9999 in each step, ends after one step; their constant is
        # meant as the factor of an exponential one.
        check_choice("schedule", schedule, SCHEDULES)
        check_counts(n_units=n_units)
        check_counts(2, max_values=max_values, n_steps=n_steps)
        check_counts(0, window=window)
        check_not_negative(token_weight=token_weight, value_weight=value_weight)
        check_share("first_teacher_share", first_teacher_share)
        # Under another decay the share of true tokens would not fall, or not be a share.
        (check_not_negative if schedule == "linear" else check_positive)(decay=decay)
        if schedule == "exponential":
            check_share("decay", decay)
        self.n_units, self.max_values, self.n_steps, self.half_window = n_units, max_values, n_steps, window // 2
        self.token_weight, self.value_weight, self.mixup = token_weight, value_weight, mixup
        self.schedule, self.first_teacher_share, self.decay = schedule, first_teacher_share, decay
        n_tokens = N_SPECIAL + max_values
        self.decoder = SequenceDecoder(
            n_features, n_tokens=n_tokens, width=width, n_layers=n_layers, n_heads=n_heads, n_hidden=n_hidden,
            dropout=dropout,
        )  # fmt: skip
        self.output = nn.Linear(width, n_tokens)
        self.register_buffer("values", torch.zeros(n_tokens, dtype=torch.int64))
        self.register_buffer("usable", torch.zeros(n_tokens, dtype=torch.bool))
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.int64))
        self.set_vocabulary(thin_out([max(n_units >> bit, 1) for bit in range(n_units.bit_length())], max_values))

    # --- vocabulary ---

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Build the vocabulary."""
        self.set_vocabulary(thin_out(self.build_vocabulary(self.in_units(y)), self.max_values))

    def build_vocabulary(self, units: Tensor) -> list[int]:
        """Falling token values for training targets. **Shape:** ``(n,)`` whole numbers."""
        return dynamic_quantile_values(units)

    def set_vocabulary(self, values: list[int]) -> None:
        """Keep token values; tokens beyond them cannot be."""
        self.values.zero_()[N_SPECIAL : N_SPECIAL + len(values)] = torch.tensor(values).to(self.values)
        self.usable.copy_(self.values > 0)
        self.usable[END] = True

    def in_units(self, y: Tensor) -> Tensor:
        """Targets as whole numbers of units. **Shape:** ``(n,)``, kept."""
        # NOTE[DIFF]: the authors round down, which is half a unit too low on average.
        return (y.double() * self.n_units).round().long()

    def tokens_of(self, y: Tensor) -> Tensor:
        """The sequences that targets are written as. **Shape:** ``(n,)`` -> ``(n, n_steps)``."""
        values = self.values[self.values > 0]
        return serialise(greedy_counts(self.in_units(y), values, self.tolerance), self.n_steps)

    # --- training ---

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy, summed over the tokens of a row, and Huber loss of the windowed value."""
        tokens = self.tokens_of(y)
        written = tokens != PADDING
        longest = int(written.sum(dim=1).max())
        tokens, written = tokens[:, :longest], written[:, :longest]
        memory = self.decoder.remember(features)
        read = self.mix(torch.cat([torch.full_like(tokens[:, :1], START), tokens[:, :-1]], dim=1), memory)
        log_probabilities = self.logits(self.decoder(read, memory)[0]).log_softmax(dim=2)
        entropy = -(log_probabilities.gather(2, tokens.unsqueeze(2)).squeeze(2) * written).sum(dim=1)
        steps = windowed_value(log_probabilities.exp(), self.values / self.n_units, self.half_window)
        value = huber_loss((steps * written).sum(dim=1), y, reduction="none")
        return {
            "tokens": self.token_weight * weighted_mean(entropy, weights),
            "value": self.value_weight * weighted_mean(value, weights),
        }

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token. **Shape:** ``(..., width)`` -> ``(..., V)``."""
        scores: Tensor = self.output(hidden)
        return scores.masked_fill(~self.usable, UNUSABLE)

    def mix(self, tokens: Tensor, memory: Tensor) -> Tensor:
        """Embedded tokens, at some places replaced by what the model would have written there.

        **Shape:** ``(n, s)`` -> ``(n, s, width)``.
        """
        embedded: Tensor = self.decoder.embedding(tokens)
        if self.training:
            self.n_updates += 1
        share = teacher_share(self.schedule, self.first_teacher_share, self.decay, int(self.n_updates))
        own = torch.rand(self.n_steps, device=tokens.device)[: tokens.shape[1]] >= share  # one draw for all rows
        own[0] = False
        if not bool(own.any()):
            return embedded
        with torch.no_grad():
            probabilities = self.logits(self.decoder(embedded, memory)[0])[:, :-1].softmax(dim=2)
        replaced = torch.cat([embedded[:, :1], self.written(probabilities)], dim=1)
        return torch.where(own[None, :, None], replaced, embedded)

    def written(self, probabilities: Tensor) -> Tensor:
        """What the next step reads of the model's own answer. **Shape:** ``(..., V)`` -> ``(..., width)``."""
        if self.mixup:
            return probabilities @ self.decoder.embedding.weight
        embedded: Tensor = self.decoder.embedding(probabilities.argmax(dim=-1))
        return embedded

    # --- inference ---

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Drawn sequences as samples, and the windowed value of the greedy sequence as the native value."""
        samples = self.sample(features, keys, n_samples)
        return Prediction(samples.cpu().numpy(), self.greedy_value(features).clamp(0, 1).cpu().numpy())

    @torch.no_grad()
    def greedy_value(self, features: Tensor) -> Tensor:
        """Windowed values added up to the end of the likeliest sequence. **Shape:** ``(n, d)`` -> ``(n,)``."""
        memory, seen, values = self.decoder.remember(features), None, self.values / self.n_units
        read = self.decoder.embedding(torch.full((len(features), 1), START, device=features.device))
        total, ended = torch.zeros_like(features[:, 0]), torch.zeros_like(features[:, 0], dtype=torch.bool)
        for _ in range(self.n_steps):
            probabilities, seen = self.next_token(read, memory, seen)
            total = total + windowed_value(probabilities, values, self.half_window) * ~ended
            ended = ended | (probabilities.argmax(dim=1) == END)
            if bool(ended.all()):
                break
            read = self.written(probabilities).unsqueeze(1)
        return total

    @torch.no_grad()
    def sample(self, features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        """Sums of sequences drawn token by token. **Shape:** ``(n, d)``, ``(n,)`` -> ``(n, n_samples)`` in [0, 1]."""
        memory = self.decoder.remember(features).repeat_interleave(n_samples, dim=0)
        seen, ended = None, torch.zeros(len(memory), dtype=torch.bool, device=features.device)
        token, total = torch.full_like(ended, START, dtype=torch.int64), torch.zeros_like(ended, dtype=torch.int64)
        # The first token decides most: its draws are spread evenly over each row's samples.
        draws = (sample_order(keys.cpu(), n_samples) + key_uniforms(keys.cpu(), torch.zeros(1).long())) / n_samples
        for step in range(self.n_steps):
            probabilities, seen = self.next_token(self.decoder.embedding(token).unsqueeze(1), memory, seen)
            reached = probabilities.cumsum(dim=1)
            level = draws.reshape(-1, 1).to(reached) * reached[:, -1:]
            token = torch.searchsorted(reached, level, right=True).squeeze(1).clamp(max=reached.shape[1] - 1)
            ended = ended | (token == END)
            total = total + self.values[token] * ~ended
            if bool(ended.all()):
                break
            draws = key_uniforms(keys.cpu(), torch.arange(n_samples) + (step + 1) * (1 << 33))
        return (total / self.n_units).clamp(max=1).view(len(features), n_samples)

    def next_token(self, read: Tensor, memory: Tensor, seen: list[Seen] | None) -> tuple[Tensor, list[Seen]]:
        """Probabilities of the token after the one that is read. **Shape:** ``(n, 1, width)`` -> ``(n, V)``."""
        hidden, seen = self.decoder(read, memory, seen)
        return self.logits(hidden[:, 0]).softmax(dim=1), seen


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

    family, title, tasks = "tokens", "GoR", ("value", "grades")
    paper, evidence = "Ma et al., ICLR 2026", "notes"

    def __init__(
        self, n_features: int, *, n_units: int = 10_000, max_values: int = 128, n_steps: int = 19, width: int = 128,
        n_layers: int = 3, n_heads: int = 8, n_hidden: int = 256, dropout: float = 0.1, window: int = 20,
        token_weight: float = 1.0, value_weight: float = 0.1, schedule: str = "exponential",
        first_teacher_share: float = 0.5, decay: float = 0.9999, mixup: bool = True, retention: float = 0.5,
        tolerance: float = 1e-3, vocabulary: str = "pruned",
    ) -> None:  # fmt: skip
        check_choice("vocabulary", vocabulary, VOCABULARIES)
        check_positive(retention=retention)
        check_share("retention", retention)
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
            return [2**bit for bit in reversed(range(largest.bit_length()))]
        if self.vocabulary == "manual":
            coins = (coin * 10**power for power in reversed(range(len(str(largest)))) for coin in (5, 2, 1))
            return [coin for coin in coins if coin <= largest]
        values = with_even_quantiles(dynamic_quantile_values(units), units, self.max_values // 2)
        values = thin_out(values, self.max_values)
        if self.vocabulary == "quantile":
            return values
        return prune(values, units, self.retention, self.tolerance, self.n_steps)
