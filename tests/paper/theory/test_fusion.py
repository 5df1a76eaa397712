import re

import numpy as np
import pytest

from diffor.paper.theory.fusion import gain_over, linear_fusion

TIMES = (9, 5, 1)


def fuse(scales, n=40_000):
    """The measurement of values with independent errors of these standard deviations, and the errors."""
    rng = np.random.default_rng(0)
    y = rng.random(n)
    errors = rng.normal(size=(n, len(scales))) * scales
    return linear_fusion(y[:, None] + errors, y, TIMES), errors


def test_the_best_time_is_the_one_with_the_smallest_error():
    found = fuse([0.3, 0.1, 0.2])[0]["selection"]
    np.testing.assert_allclose(found["mse"], [0.09, 0.01, 0.04], rtol=0.05)
    assert found["best_time"] == 5
    assert found["row_oracle_mse"] < found["mse"].min()
    assert found["gain_over_last"] == pytest.approx(0.75, abs=0.03)
    assert found["gain_over_last"] > 2 * found["gain_error"]
    last = fuse([0.3, 0.2, 0.1])[0]["selection"]
    assert (last["best_time"], last["gain_over_last"], last["gain_error"]) == (1, 0.0, 0.0)


def test_a_gain_has_the_standard_error_of_its_paired_differences():
    errors, others = np.array([0.0, 1.0, 2.0, 1.0]), np.array([1.0, 2.0, 2.0, 1.0])
    differences = others**2 - errors**2
    expected = differences.sum() / (others**2).sum(), differences.std(ddof=1) / 2 / (others**2).mean()
    assert gain_over(errors, others) == pytest.approx(expected)


def test_the_oracle_of_rows_takes_the_smaller_error_of_each():
    values, y = np.array([[0.1, 0.5], [0.5, 0.2]] * 2), np.zeros(4)
    assert linear_fusion(values, y, (2, 1))["selection"]["row_oracle_mse"] == pytest.approx((0.01 + 0.04) / 2)


def test_independent_errors_are_weighted_by_their_inverse_variance():
    scales = np.array([0.3, 0.1, 0.2])
    found, precision = fuse(scales)[0]["fusion"], (scales**-2).sum()
    np.testing.assert_allclose(found["weights"], scales**-2 / precision, atol=0.02)
    assert found["weights"].sum() == pytest.approx(1)
    assert found["held_out_mse"] == pytest.approx(1 / precision, rel=0.05)
    assert found["gain_over_best"] == pytest.approx(1 - 100 / precision, abs=0.05)
    assert found["gain_over_last"] == pytest.approx(1 - 25 / precision, abs=0.05)


def test_the_covariance_bound_is_the_sum_of_the_absolute_products():
    found, errors = fuse([0.3, 0.1, 0.2], n=50)
    weights, errors = found["fusion"]["weights"], errors[:25]
    total = sum(
        abs(weights[i] * weights[j]) * abs((errors[:, i] * errors[:, j]).mean()) for i in range(3) for j in range(3)
    )
    assert found["fusion"]["bound"] == pytest.approx(total)
    assert found["fusion"]["mse"] == pytest.approx(((errors @ weights) ** 2).mean())
    assert found["fusion"]["mse"] <= total


def test_errors_that_are_nearly_the_same_make_the_bound_promise_nothing():
    rng = np.random.default_rng(0)
    y, common = rng.random(4000), rng.normal(size=4000)
    values = y[:, None] + common[:, None] * [0.2, 0.1] + 0.01 * rng.normal(size=(4000, 2))
    found = linear_fusion(values, y, (9, 1))
    assert found["fusion"]["weights"].min() < 0
    assert found["fusion"]["gain_over_last"] > 0.8
    assert found["fusion"]["bound"] > found["selection"]["mse"].min()


def test_without_errors_nothing_is_gained():
    y = np.linspace(0, 1, 8)
    found = linear_fusion(np.stack([y, y, y], axis=1), y, TIMES)["fusion"]
    assert (found["gain_over_best"], found["gain_over_last"], found["held_out_mse"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("shape", [(3, 3), (8, 2)])
def test_values_that_do_not_fit_are_refused(shape):
    message = f"values must hold one number for each of at least 4 rows and each time, but got values.shape={shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        linear_fusion(np.zeros(shape), np.zeros(shape[0]), TIMES)
