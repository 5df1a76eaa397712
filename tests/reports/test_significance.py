import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from diffor.reports.significance import holm, signed_rank_p, welch


def test_parts_without_any_spread():
    assert welch(np.full(5, 2.0), np.ones(5)) == (np.inf, 0.0)
    assert welch(np.ones(5), np.full(5, 2.0)) == (-np.inf, 1.0)
    assert welch(np.ones(5), np.ones(5)) == (0.0, 1.0)


def test_the_signed_rank_test_leaves_zeros_out():
    values = np.random.default_rng(1).normal(0.3, size=14)
    assert signed_rank_p(np.array([*values, 0.0])) == stats.wilcoxon(values).pvalue
    assert signed_rank_p(np.zeros(4)) == 1.0
    assert signed_rank_p(np.arange(1.0, 7.0)) == pytest.approx(2 / 2**6)


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_keeps_the_order_and_never_lowers(values):
    corrected, order = holm(values), np.argsort(values, kind="stable")
    assert ((corrected >= np.array(values) - 1e-15) & (corrected <= 1)).all()
    assert (np.diff(corrected[order]) >= 0).all()
    if values:
        assert corrected[order[0]] == pytest.approx(min(1, len(values) * min(values)))


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
