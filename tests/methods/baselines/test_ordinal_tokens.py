"""GoR: its pruned vocabulary, and those of its own ablation."""

import math

import numpy as np
import pytest
import torch

from diffor.errors import UserError
from diffor.methods.baselines.ordinal_tokens import VOCABULARIES, GenerativeOrdinal
from diffor.methods.baselines.vocabulary import PADDING, binary_values, manual_values

SMALL = {"width": 16, "n_layers": 1, "n_heads": 4, "n_hidden": 32, "dropout": 0.0}


def skewed(n=3000, seed=0):
    """Targets in thousandths, of which many are zero and most are small."""
    random = np.random.default_rng(seed)
    units = np.minimum(random.lognormal(3.5, 1.2, n), 1000) * (random.random(n) > 0.2)
    return torch.from_numpy(units.astype(np.int64)) / 1000


def test_gor_writes_shorter_sequences_with_fewer_tokens_than_its_full_vocabulary():
    y = skewed()
    full = GenerativeOrdinal(2, retention=1.0, **SMALL)
    pruned = GenerativeOrdinal(2, **SMALL)
    full.prepare(y)
    pruned.prepare(y)
    n_full, n_pruned = int((full.values > 0).sum()), int((pruned.values > 0).sum())
    assert n_pruned == math.ceil(n_full / 2)
    units = pruned.in_units(y)
    read = pruned.values[pruned.tokens_of(y)].sum(dim=1)
    assert ((units - read).abs() <= 1e-3 * units).all()
    assert (pruned.tokens_of(y) != PADDING).sum(dim=1).float().mean() < 7


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_vocabulary_of_the_ablation_writes_the_targets(vocabulary):
    y = skewed()
    method = GenerativeOrdinal(2, vocabulary=vocabulary, **SMALL)
    method.prepare(y)
    units, tokens = method.in_units(y), method.tokens_of(y)
    read = method.values[tokens].sum(dim=1)
    whole = (tokens == PADDING).any(dim=1)  # coins may need more of them than there is room for
    assert whole.float().mean() > 0.95
    assert ((units - read).abs()[whole] <= 1e-3 * units[whole]).all()
    assert method.loss(torch.randn(len(y), 2)[:64], y[:64])


def test_they_are_what_they_are_called():
    assert binary_values(1000) == [512, 256, 128, 64, 32, 16, 8, 4, 2, 1]
    assert manual_values(1000) == [1000, 500, 200, 100, 50, 20, 10, 5, 2, 1]
    assert binary_values(1) == manual_values(1) == [1]
    sizes = {}
    for vocabulary in VOCABULARIES:
        method = GenerativeOrdinal(2, vocabulary=vocabulary, **SMALL)
        method.prepare(skewed())
        sizes[vocabulary] = int((method.values > 0).sum())
    assert sizes["pruned"] == math.ceil(sizes["quantile"] / 2)
    assert sizes["binary"] == 14  # of ten thousand units
    assert sizes["manual"] == 13
    with pytest.raises(UserError, match="vocabulary must be one of pruned, quantile, binary, manual"):
        GenerativeOrdinal(2, vocabulary="words", **SMALL)
