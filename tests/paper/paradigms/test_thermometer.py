import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from diffor.paper.paradigms.thermometer import (
    bit_entropy,
    broken_share,
    count_spread,
    divergence,
    entropy,
    impossible_share,
    independent_divergence,
    information_of_bits,
    passing,
    total_correlation,
)

Array = NDArray[np.float64]


def is_thermometer(bits: tuple[int, ...]) -> bool:
    return list(bits) == sorted(bits, reverse=True)


def by_enumeration(ranks: Array, chances: Array) -> tuple[float, float]:
    """Divergence to independent bits and share of impossible patterns, pattern by pattern."""
    total, impossible = 0.0, 0.0
    for bits in itertools.product((0, 1), repeat=len(chances)):
        naive = float(np.prod(np.where(bits, chances, 1 - chances)))
        if is_thermometer(bits):
            truth = ranks[sum(bits)]
            total += truth * np.log2(truth / naive) if truth > 0 else 0.0
        else:
            impossible += naive
    return total, impossible


weights = st.lists(st.floats(0.01, 1), min_size=2, max_size=7).map(lambda drawn: np.array(drawn) / sum(drawn))


@given(weights)
def test_the_total_correlation_is_the_divergence_pattern_by_pattern(ranks: Array) -> None:
    exact, impossible = by_enumeration(ranks, passing(ranks))
    assert float(total_correlation(ranks)) == pytest.approx(exact, abs=1e-9)
    assert float(impossible_share(passing(ranks))) == pytest.approx(impossible, abs=1e-9)


@given(weights)
def test_the_papers_sum_of_informations_is_the_total_correlation(ranks: Array) -> None:
    informations = information_of_bits(ranks)
    assert (informations > -1e-9).all()
    assert informations[0] == pytest.approx(0, abs=1e-9), "nothing stands before the first bit"
    assert informations.sum() == pytest.approx(float(total_correlation(ranks)), abs=1e-9)


@given(weights, st.randoms(use_true_random=False))
def test_wrong_chances_only_add_to_what_independence_costs(ranks: Array, random: object) -> None:
    chances = np.array([random.uniform(0.05, 0.95) for _ in ranks[1:]])  # type: ignore[attr-defined]
    exact, _ = by_enumeration(ranks, chances)
    assert float(independent_divergence(ranks, chances)) == pytest.approx(exact, abs=1e-6)
    assert float(independent_divergence(ranks, chances)) >= float(total_correlation(ranks)) - 1e-9


def test_one_threshold_depends_on_nothing() -> None:
    assert float(total_correlation([0.3, 0.7])) == pytest.approx(0, abs=1e-12)
    assert float(impossible_share([0.3])) == pytest.approx(0, abs=1e-12)


def test_entropies_are_in_bits() -> None:
    assert float(entropy(np.full(8, 1 / 8))) == pytest.approx(3)
    np.testing.assert_allclose(bit_entropy(np.array([0.0, 0.5, 1.0])), [0, 1, 0])


def test_the_divergence_of_one_from_itself_is_zero_and_else_positive() -> None:
    truth = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(divergence(truth, truth), 0)
    assert float(divergence(np.array([1.0, 0.0]), np.array([0.25, 0.75]))) == pytest.approx(2)


def test_independent_bits_count_with_less_spread_than_the_ranks() -> None:
    ranks = np.array([0.25, 0.25, 0.25, 0.25])
    chances = passing(ranks)
    assert float(count_spread(ranks)) == pytest.approx(np.sqrt(1.25))
    assert np.sqrt((chances * (1 - chances)).sum()) < count_spread(ranks)


def test_broken_increments_are_those_that_begin_too_early() -> None:
    assert broken_share(np.array([[1.0, 1.0, 0.3], [0.95, 0.05, 0.0]])) == 0
    assert broken_share(np.array([[[0.0, 1.0]], [[1.0, 1.0]]])) == 0.5
