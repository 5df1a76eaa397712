"""Networks that turn a table's tensors into features; of very many ids a step touches only the rows that it meets."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from diffor.core.draws import ByteDropout
from diffor.core.method import Encoder
from diffor.encoders.tabular.inputs import FIRST_LEVEL, UNKNOWN

SPARSE_WIDTH = 16
"""Numbers that describe an id of a sparse table."""
START_SPREAD = 0.1


class SparseEmbedding(nn.Module):
    """A table of embeddings with sparse gradients; with ``n_buckets``, ids share rows, two for each.

    Without buckets a code is a row of the table. With them it is two numbers below ``n_buckets`` in one, the rows whose
    sum describes the id: ids that meet in one row hardly ever meet in the other. Training such a table is the task of
    :class:`~diffor.training.optimizer.RowAdagrad`, which knows only the rows that a step touched.

    **Shape:** ``(n,)`` -> ``(n, width)``.

    >>> import torch
    >>> SparseEmbedding(n_codes=1002, n_buckets=1000)(torch.tensor([0, 1, 2, 999_999])).shape
    torch.Size([4, 16])
    """

    def __init__(self, n_codes: int, width: int = SPARSE_WIDTH, n_buckets: int | None = None) -> None:
        super().__init__()
        self.n_buckets = n_buckets
        spread = START_SPREAD if n_buckets is None else START_SPREAD / math.sqrt(2)
        self.weight = nn.Parameter(torch.randn(n_codes, width).mul_(spread))
        with torch.no_grad():
            self.weight[UNKNOWN] = 0  # the centre of the others, and it stays there

    def forward(self, codes: Tensor) -> Tensor:
        """Embed each code. **Shape:** ``(n,)`` -> ``(n, width)``."""
        if self.n_buckets is None:
            return self._look_up(codes)
        first, second = bucket_rows(codes, self.n_buckets)
        return self._look_up(first) + self._look_up(second)

    def _look_up(self, rows: Tensor) -> Tensor:
        return nn.functional.embedding(rows, self.weight, padding_idx=UNKNOWN, sparse=True)


def bucket_rows(codes: Tensor, n_buckets: int) -> tuple[Tensor, Tensor]:
    """The two rows of each hashed code; unknown and missing values have one row of their own. **Shape:** ``(n,)``.

    >>> import torch
    >>> [rows.tolist() for rows in bucket_rows(torch.tensor([1, 2, 2 + 7 * 10 + 3]), n_buckets=10)]
    [[1, 2, 5], [0, 2, 9]]
    """
    hashed = codes - FIRST_LEVEL
    is_id = hashed >= 0
    first = torch.where(is_id, hashed % n_buckets + FIRST_LEVEL, codes)
    second = torch.where(is_id, hashed // n_buckets + FIRST_LEVEL, UNKNOWN)
    return first, second


def sparse_tables(model: nn.Module) -> list[nn.Parameter]:
    """The tables of a model that are trained row by row."""
    return [module.weight for module in model.modules() if isinstance(module, SparseEmbedding)]


def table_bytes(n_rows: int, width: int = SPARSE_WIDTH, while_training: bool = True) -> int:
    """Bytes of a table: its numbers and, while training, one more per row and a copy of the best ones so far.

    >>> table_bytes(1, while_training=False), table_bytes(1), table_bytes(1_000_000)
    (64, 132, 132000000)
    """
    return n_rows * 4 * (2 * width + 1 if while_training else width)


BEYOND = 10.0  # piece lengths that the outermost codes reach beyond their ends
WIDE_TABLE = 256
"""Of more numbers than this none is embedded: each would become dozens, and so many say enough together."""


class PeriodicEmbedding(nn.Module):
    """Describe each number by trainable sines and cosines, then by a small linear map of its own.

    By hand: ``rtdl_num_embeddings`` takes as long (2.6 ms against 2.8 for 512 rows of 20 numbers, there and back) and
    would be one more package to install.

    **Shape:** ``(n, p)`` -> ``(n, p * out)``.
    """

    def __init__(self, n_numbers: int, n_frequencies: int = 24, out: int = 12, sigma: float = 0.3) -> None:
        super().__init__()
        self.out = out
        self.frequencies = nn.Parameter(torch.randn(n_numbers, n_frequencies) * sigma)
        bound = 1 / math.sqrt(2 * n_frequencies + 1)
        self.mixing = nn.Parameter(torch.empty(n_numbers, 2 * n_frequencies + 1, out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_numbers, out))

    def forward(self, numbers: Tensor) -> Tensor:
        """Embed each number. **Shape:** ``(n, p)`` -> ``(n, p * out)``."""
        columns = numbers.t().unsqueeze(-1)  # (p, n, 1): columns first, so that each one's map is a matrix product
        angles = torch.bmm(columns * (2 * math.pi), self.frequencies.unsqueeze(1))  # (p, n, f)
        of_sine, of_cosine, of_number = torch.split(self.mixing, [angles.shape[-1], angles.shape[-1], 1], dim=1)
        mixed = torch.baddbmm(self.bias.unsqueeze(1), angles.sin(), of_sine)
        mixed = torch.baddbmm(mixed, angles.cos(), of_cosine)
        mixed = torch.baddbmm(mixed, columns, of_number)  # (p, n, out)
        return nn.functional.silu(mixed.permute(1, 0, 2).flatten(1))


class PiecewiseEmbedding(nn.Module):
    """Say how far each number has filled each of its pieces: a thermometer code of the inputs.

    A piece ends where equally many training rows lie between its ends, so that the code is fine where data are dense.
    The outermost pieces go on beyond their ends, so that far values still differ, up to ``BEYOND`` lengths: those of
    ``rtdl_num_embeddings`` go on for ever (and take .15 ms where these take .5, for 512 rows of 20 numbers).

    **Shape:** ``(n, p)`` -> ``(n, out)``.

    >>> import torch
    >>> PiecewiseEmbedding([[0.0, 1.0, 3.0]])(torch.tensor([[2.0], [4.0]]))
    tensor([[1.0000, 0.5000],
            [1.0000, 1.5000]])
    """

    column: Tensor
    lower: Tensor
    length: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, edges: list[list[float]]) -> None:
        super().__init__()
        pieces = [
            (column, low, high - low, -BEYOND if place == 0 else 0.0, BEYOND if place == len(ends) - 2 else 1.0)
            for column, ends in enumerate(edges)
            for place, (low, high) in enumerate(pairwise(ends))
        ]
        self.out = len(pieces)
        parts = zip(*pieces, strict=True) if pieces else [()] * 5
        for name, part in zip(("column", "lower", "length", "least", "most"), parts, strict=True):
            dtype = torch.int64 if name == "column" else torch.float32
            self.register_buffer(name, torch.tensor(part, dtype=dtype), persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        """Code each number. **Shape:** ``(n, p)`` -> ``(n, out)``."""
        filled = (numbers[:, self.column] - self.lower) / self.length
        return torch.minimum(torch.maximum(filled, self.least), self.most)


class TabularEncoder(Encoder):
    """Embeds numbers and categories and mixes them in a multilayer perceptron.

    ``embedding="none"`` takes the scaled numbers as they are, ``"periodic"`` describes each by waves, ``"piecewise"``
    adds how far each has filled the pieces between the ``edges`` of its column. ``tables`` say of each category how its
    embeddings are kept, all ``dense`` unless given: see :attr:`~diffor.encoders.TabularInputs.tables`.

    >>> import torch
    >>> encoder = TabularEncoder(n_numbers=3, category_sizes=[5], width=32)
    >>> encoder(torch.randn(4, 3), torch.ones(4, 1, dtype=torch.int64)).shape
    torch.Size([4, 32])
    """

    def __init__(
        self,
        n_numbers: int,
        category_sizes: list[int],
        *,
        tables: list[int | str] | None = None,
        embedding: str = "none",
        edges: list[list[float]] | None = None,
        width: int = 256,
        n_layers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.out_features = width
        self.numbers = make_embedding(embedding, n_numbers, edges)
        kept = tables or ["dense"] * len(category_sizes)
        pairs = list(zip(category_sizes, kept, strict=True))
        sizes = [embedding_width(size) if table == "dense" else SPARSE_WIDTH for size, table in pairs]
        self.categories = nn.ModuleList(make_table(*pair) for pair in pairs)
        for table in self.categories:
            if isinstance(table, nn.Embedding):
                nn.init.normal_(table.weight[1:], std=0.1)
        n_in = numbers_width(self.numbers, n_numbers) + sum(sizes)
        layers: list[nn.Module] = []
        for place in range(n_layers):
            layers += [nn.Linear(max(n_in, 1) if place == 0 else width, width), nn.SiLU(), ByteDropout(dropout)]
        self.layers = nn.Sequential(*layers)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Encode rows. **Shape:** numbers ``(n, p)``, codes ``(n, c)`` -> ``(n, out_features)``."""
        numbers, codes = inputs[:2]
        parts = [self.numbers(numbers)]
        if isinstance(self.numbers, PiecewiseEmbedding):
            parts.append(numbers)
        parts += [table(codes[:, place]) for place, table in enumerate(self.categories)]
        joined = torch.cat(parts, dim=1)
        if joined.shape[1] == 0:  # every column was constant: there is nothing to tell rows apart
            joined = joined.new_zeros(len(joined), 1)
        features: Tensor = self.layers(joined)
        return features


def make_embedding(name: str, n_numbers: int, edges: list[list[float]] | None) -> nn.Module:
    """The embedding of numbers that a name stands for."""
    if name == "periodic" and n_numbers:
        return PeriodicEmbedding(n_numbers)
    if name == "piecewise" and n_numbers:
        return PiecewiseEmbedding(edges or [])
    return nn.Identity()


def numbers_width(embedding: nn.Module, n_numbers: int) -> int:
    """How many values describe the numbers of a row."""
    if isinstance(embedding, PeriodicEmbedding):
        return n_numbers * embedding.out
    return n_numbers + (embedding.out if isinstance(embedding, PiecewiseEmbedding) else 0)


def make_table(n_codes: int, kept: int | str) -> nn.Module:
    """The embeddings of a categorical column: ``dense``, ``sparse``, or shared by this many buckets.

    NOTE[DIFF]: the paper trains all weights by Adam. Adam moves every row of a table at every step, which takes long
    where rows are ids; rows of sparse tables are trained by Adagrad, when they are met.
    """
    if kept != "dense":
        return SparseEmbedding(n_codes, n_buckets=None if isinstance(kept, str) else kept)
    # The unknown code stays at zero, the centre of the others.
    return nn.Embedding(n_codes, embedding_width(n_codes), padding_idx=UNKNOWN)


def embedding_width(n_codes: int) -> int:
    """Numbers to describe one of ``n_codes`` categories with: more for more, at most 32.

    >>> embedding_width(4), embedding_width(16_386)
    (3, 32)
    """
    return max(2, min(32, round(1.6 * math.sqrt(n_codes))))
