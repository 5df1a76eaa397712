import re

import numpy as np
import pytest

from diffor.paper.theory.fusion import gain_over, linear_fusion

TIMES = (9, 5, 1)


def independent(scales, n=40_000, seed=0):
    """Values with independent errors of these standard deviations."""
    rng = np.random.default_rng(seed)
    y = rng.random(n)
    return y[:, None] + rng.normal(size=(n, len(scales))) * scales, y


def test_the_best_time_is_the_one_with_the_smallest_error():
    values, y = independent([0.3, 0.1, 0.2])
    found = linear_fusion(values, y, TIMES).selection
    np.testing.assert_allclose(found.mse, [0.09, 0.01, 0.04], rtol=0.05)
    assert found.best == 1
    assert found.row_oracle_mse < found.mse.min()
    assert found.gain.share == pytest.approx(0.75, abs=0.03)
    assert found.numbers["best_time"] == 5
    assert abs(found.gain.share) > 2 * found.gain.error


def test_a_gain_has_the_standard_error_of_its_paired_differences():
    errors, others = np.array([0.0, 1.0, 2.0, 1.0]), np.array([1.0, 2.0, 2.0, 1.0])
    gain = gain_over(errors, others)
    differences = others**2 - errors**2
    assert gain.share == pytest.approx(differences.sum() / (others**2).sum())
    assert gain.error == pytest.approx(differences.std(ddof=1) / 2 / (others**2).mean())


def test_where_the_last_time_is_best_nothing_is_gained():
    values, y = independent([0.3, 0.2, 0.1])
    found = linear_fusion(values, y, TIMES).selection
    assert found.best == 2
    assert found.gain == (0.0, 0.0)


def test_the_oracle_of_rows_takes_the_smaller_error_of_each():
    values, y = np.array([[0.1, 0.5], [0.5, 0.2]] * 2), np.zeros(4)
    assert linear_fusion(values, y, (2, 1)).selection.row_oracle_mse == pytest.approx((0.01 + 0.04) / 2)


def test_independent_errors_are_weighted_by_their_inverse_variance():
    scales = np.array([0.3, 0.1, 0.2])
    values, y = independent(scales)
    found = linear_fusion(values, y, TIMES)
    expected = scales**-2 / (scales**-2).sum()
    np.testing.assert_allclose(found.weights, expected, atol=0.02)
    assert found.weights.sum() == pytest.approx(1)
    assert found.held_out_mse == pytest.approx(1 / (scales**-2).sum(), rel=0.05)
    assert found.over_best.share == pytest.approx(1 - 100 / (scales**-2).sum(), abs=0.05)
    assert found.over_last.share == pytest.approx(1 - 25 / (scales**-2).sum(), abs=0.05)


def test_the_covariance_bound_is_the_sum_of_the_absolute_products():
    values, y = independent([0.3, 0.1, 0.2], n=50)
    found = linear_fusion(values, y, TIMES)
    errors = (values - y[:, None])[:25]
    total = 0.0
    for i in range(3):
        for j in range(3):
            total += abs(found.weights[i] * found.weights[j]) * abs((errors[:, i] * errors[:, j]).mean())
    assert found.bound == pytest.approx(total)
    assert found.mse == pytest.approx(((errors @ found.weights) ** 2).mean())
    assert found.mse <= found.bound


def test_errors_that_are_nearly_the_same_make_the_bound_promise_nothing():
    rng = np.random.default_rng(0)
    y, common = rng.random(4000), rng.normal(size=4000)
    values = y[:, None] + common[:, None] * [0.2, 0.1] + 0.01 * rng.normal(size=(4000, 2))
    found = linear_fusion(values, y, (9, 1))
    assert found.weights.min() < 0
    assert found.over_last.share > 0.8
    assert found.bound > found.selection.mse.min()


def test_without_errors_nothing_is_gained():
    y = np.linspace(0, 1, 8)
    found = linear_fusion(np.stack([y, y, y], axis=1), y, TIMES)
    assert found.over_best == found.over_last == (0.0, 0.0)
    assert found.held_out_mse == 0.0


@pytest.mark.parametrize("shape", [(3, 3), (8, 2)])
def test_values_that_do_not_fit_are_refused(shape):
    message = f"values must hold one number for each of at least 4 rows and each time, but got values.shape={shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        linear_fusion(np.zeros(shape), np.zeros(shape[0]), TIMES)
