"""Embeddings of very many ids: tables of which a step touches only the rows of the ids that it meets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from diffor.encoders.tabular.inputs import FIRST_LEVEL, UNKNOWN

SPARSE_WIDTH = 16
"""Numbers that describe an id of a sparse table."""
START_SPREAD = 0.1


class SparseEmbedding(nn.Module):
    """A table of embeddings with sparse gradients; with ``n_buckets``, ids share rows, two for each.

    Without buckets a code is a row of the table. With them it is two numbers below ``n_buckets`` in one, the rows whose
    sum describes the id: ids that meet in one row hardly ever meet in the other. Training such a table is the task of
    :class:`~diffor.training.row_adagrad.RowAdagrad`, which knows only the rows that a step touched.

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
