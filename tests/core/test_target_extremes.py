"""Targets at the ends of double precision: answered right, or refused with the reason."""

import numpy as np
import pytest

from diffor.core.target import FARTHEST, TRANSFORMS, TargetScale, check_bounds
from diffor.errors import UserError


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    "y",
    [
        [0.0, 1e150], [-1e150, 0.0, 1e150], [0.0, 1e-150, 1.0], [0.0, 5e-324, 1.0], [1e-149, 5e-149],
        [0.0, 5e-324, 1e150], [1e15, 1e15 + 1], [-1e-300, 1e100], [3.0, 3.0], [0.0] * 50 + [1e-320] * 50 + [1.0],
    ],
)  # fmt: skip
def test_there_and_back_is_finite_and_inside(y, transform):
    y = np.array(y)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        scale = TargetScale(transform=transform).fit(y)
        unit, back = scale.to_unit(y), scale.from_unit(np.linspace(0, 1, 101))
    assert np.isfinite(unit).all()
    assert np.isfinite(back).all()
    assert back.min() >= y.min()
    assert back.max() <= y.max()
    assert (np.diff(back) >= 0).all()
    np.testing.assert_allclose(scale.from_unit(unit), y, rtol=1e-6, atol=1e-6 * np.ptp(y))


@pytest.mark.parametrize("y", [[0.0, 1e308], [-1e308, 1e308], [2e150, 2e150], [0.0, 5e-324], [1e-200, 2e-200]])
def test_what_double_precision_cannot_tell_is_refused(y):
    with pytest.raises(UserError, match=r"y must (lie within|differ by more).*(divide|multiply) by a constant"):
        TargetScale().fit(y)
    if y[0] < y[1]:
        with pytest.raises(UserError, match="bounds must"):
            check_bounds(tuple(y))


def test_bounds_of_whole_numbers_without_end_are_refused():
    with pytest.raises(UserError, match="bounds must lie within"):
        check_bounds((0, 10**400))
    assert np.isfinite(FARTHEST**2)
