import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diffor.core.target import FARTHEST, TRANSFORMS, GradeScale, TargetScale, check_bounds, check_inside
from diffor.errors import UserError

every_transform = pytest.mark.parametrize("transform", TRANSFORMS)
transforms = st.sampled_from(TRANSFORMS)
plain = npst.arrays(float, st.integers(1, 60), elements=st.floats(-1e4, 1e4).map(lambda x: round(x, 3)))
tied = npst.arrays(float, st.integers(1, 60), elements=st.integers(0, 5))
zero_inflated = npst.arrays(float, st.integers(1, 60), elements=st.just(0.0) | st.floats(0.01, 1e4))
targets = plain | tied | zero_inflated


def refused(message: str):
    return pytest.raises(ValueError, match=re.escape(message))


# The map and its inverse.


@settings(deadline=None)
@given(targets, transforms)
def test_training_targets_come_back(y, transform):
    scale = TargetScale(transform=transform).fit(y)
    unit = scale.to_unit(y)
    assert unit.min() >= 0
    assert unit.max() <= 1
    np.testing.assert_allclose(scale.from_unit(unit), y, rtol=1e-8, atol=1e-8 * max(1, np.ptp(y)))


@settings(deadline=None)
@given(targets, transforms, st.floats(0.5, 100), st.floats(0.5, 100))
def test_every_value_inside_wider_bounds_comes_back(y, transform, below, above):
    bounds = (float(y.min() - below), float(y.max() + above))
    scale = TargetScale(bounds, transform).fit(y)
    inside = np.linspace(*bounds, 101)
    unit = scale.to_unit(inside)
    assert (np.diff(unit) > 0).all()
    np.testing.assert_allclose(scale.from_unit(unit), inside, rtol=1e-7, atol=1e-7 * np.ptp(bounds))


@settings(deadline=None)
@given(targets, transforms, st.booleans())
def test_the_ends_are_exactly_the_bounds(y, transform, given_bounds):
    bounds = (float(y.min()) - 3.3, float(y.max()) + 7.7) if given_bounds else None
    scale = TargetScale(bounds, transform).fit(y)
    low, high = bounds if given_bounds else (y.min(), y.max())
    assert (scale.low, scale.high) == (low, high)
    assert scale.from_unit([0.0, 1.0]).tolist() == [low, high]
    assert scale.to_unit([low, high]).tolist() == ([0.0, 1.0] if low < high else [0.0, 0.0])


@settings(deadline=None)
@given(targets, transforms, npst.arrays(float, 20, elements=st.floats(-3, 4)))
def test_nothing_leaves_the_bounds(y, transform, unit):
    scale = TargetScale(transform=transform).fit(y)
    back = scale.from_unit(unit)
    assert back.min() >= y.min()
    assert back.max() <= y.max()
    outside = scale.to_unit([y.min() - 1e6, y.max() + 1e6])
    assert outside.tolist() == ([0.0, 1.0] if y.min() < y.max() else [0.0, 0.0])


@every_transform
def test_any_shape_is_kept(transform):
    scale = TargetScale(transform=transform).fit([0.0, 1.0, 5.0])
    assert scale.from_unit(np.full((2, 3), 0.4)).shape == (2, 3)
    assert scale.to_unit(np.full((2, 3), 0.4, dtype=np.float32)).dtype == np.float64


def test_quantile_spreads_training_rows_evenly():
    y = np.random.default_rng(0).lognormal(0, 2, 5000)
    unit = np.sort(TargetScale(transform="quantile").fit(y).to_unit(y))
    assert abs(unit - np.linspace(0, 1, 5000)).max() < 0.005


def test_quantile_with_heavy_ties_at_the_lower_bound():
    y = np.r_[np.zeros(900), np.linspace(1, 100, 100)]
    scale = TargetScale(transform="quantile").fit(y)
    assert scale.to_unit([0.0])[0] == 0
    assert scale.to_unit([1.0])[0] == pytest.approx(0.9, abs=0.01)
    assert scale.from_unit([0.0])[0] == 0
    np.testing.assert_allclose(scale.from_unit(scale.to_unit(y)), y, atol=1e-9)


def test_quantile_uses_at_most_a_thousand_knots():
    scale = TargetScale(transform="quantile").fit(np.random.default_rng(0).normal(size=50_000))
    assert len(scale.values) <= 1002
    assert (np.diff(scale.values) > 0).all()
    assert (np.diff(scale.units) > 0).all()


def test_log_turns_ratios_into_steps_far_above_the_lower_bound():
    scale = TargetScale(bounds=(0, 1e9), transform="log").fit([1.0, 1.0, 1.0])
    steps = np.diff(scale.to_unit([1e5, 1e6, 1e7, 1e8, 1e9]))
    assert steps == pytest.approx([steps[0]] * 4, rel=1e-4)
    assert scale.to_unit([1.0])[0] == pytest.approx(np.log(2) / np.log1p(1e9))


# Corner cases of fitting.


@every_transform
@pytest.mark.parametrize("y", [[4.0], [4.0, 4.0, 4.0]])
def test_one_value_without_bounds_is_the_only_answer(transform, y):
    scale = TargetScale(transform=transform).fit(y)
    assert scale.to_unit(y).tolist() == [0.0] * len(y)
    assert scale.from_unit([0.0, 0.3, 1.0]).tolist() == [4.0] * 3


@every_transform
@pytest.mark.parametrize("y", [[4.0], [4.0, 4.0, 4.0], [0.0, 0.0], [10.0, 10.0]])
def test_one_value_with_bounds_keeps_the_whole_range(transform, y):
    scale = TargetScale((0, 10), transform).fit(y)
    assert scale.from_unit([0.0, 1.0]).tolist() == [0, 10]
    np.testing.assert_allclose(scale.from_unit(scale.to_unit([0, 2.5, 4, 10])), [0, 2.5, 4, 10], atol=1e-9)


@every_transform
def test_fitting_twice_forgets_the_first(transform):
    again = TargetScale(transform=transform).fit([1.0, 2.0, 9.0]).fit([5.0, 6.0, 8.0])
    assert again.to_json() == TargetScale(transform=transform).fit([5.0, 6.0, 8.0]).to_json()


@settings(deadline=None)
@given(targets, transforms, st.booleans())
def test_json_round_trip_gives_the_same_map(y, transform, given_bounds):
    bounds = (float(y.min()) - 1, float(y.max()) + 1) if given_bounds else None
    scale = TargetScale(bounds, transform).fit(y)
    copy = TargetScale.from_json(json.loads(json.dumps(scale.to_json())))
    assert copy.to_json() == scale.to_json()
    assert (copy.bounds, copy.transform) == (scale.bounds, scale.transform)
    assert np.array_equal(copy.to_unit(y), scale.to_unit(y))
    assert np.array_equal(copy.from_unit(np.linspace(0, 1, 50)), scale.from_unit(np.linspace(0, 1, 50)))


def test_bounds_of_any_number_type_can_be_written():
    scale = TargetScale(np.array([0, 10])).fit([1.0])
    assert json.loads(json.dumps(scale.to_json()))["bounds"] == [0.0, 10.0]


# Refusals.


def test_an_unknown_transform_is_refused():
    with refused("transform must be one of uniform, quantile, log, but got transform='sqrt'"):
        TargetScale(transform="sqrt")


@pytest.mark.parametrize(
    "bounds", [(1, 1), (2, 1), (0, float("inf")), (float("nan"), 1), (0,), (0, 1, 2), 5, ((0, 1), (2, 3)), (None, 1)]
)
def test_bounds_that_are_no_range_are_refused(bounds):
    message = f"bounds must be two finite numbers (low, high) with low < high, but got bounds={bounds!r}"
    with refused(message):
        TargetScale(bounds)
    with refused(message):
        check_bounds(bounds)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, np.nan, 2.0], "y must not contain NaN, but 1 of 3 values are NaN (row 1: nan); remove or correct"),
        ([np.inf, 1.0, -np.inf], "y must not contain infinity, but 2 of 3 values are infinite (row 0: inf, row 2"),
    ],
)
@pytest.mark.parametrize("bounds", [None, (0, 10)])
def test_missing_and_infinite_targets_are_refused(y, message, bounds):
    with refused(message):
        TargetScale(bounds).fit(y)


def test_targets_outside_the_bounds_are_counted_and_shown():
    with refused(
        "y must lie inside bounds=(0, 10), but 4 of 6 values lie outside (row 1: 11.0, row 2: -1.0, row 3: 12.0, "
        "...); remove or correct these rows, or widen the bounds"
    ):
        TargetScale((0, 10)).fit([5.0, 11.0, -1.0, 12.0, 13.0, 0.0])


def test_the_name_of_the_targets_is_shown():
    with refused("y_val must lie inside bounds=(0.0, 1.0), but 1 of 2 values lie outside (row 1: 2.0); remove"):
        check_inside(np.array([0.5, 2.0]), (0.0, 1.0), name="y_val")


# Grades.


@pytest.mark.parametrize("n_grades", [1, 2, 117])
def test_grades_come_back(n_grades):
    scale, grades = GradeScale(n_grades), np.arange(n_grades)
    assert (scale.low, scale.high) == (0, n_grades - 1)
    unit = scale.to_unit(grades)
    assert unit[0] == 0
    assert unit[-1] == (1 if n_grades > 1 else 0)
    assert scale.from_unit(unit).tolist() == grades.tolist()
    assert np.diff(unit) == pytest.approx(np.full(n_grades - 1, 1 / max(n_grades - 1, 1)))


@settings(deadline=None)
@given(st.integers(1, 50), npst.arrays(float, 20, elements=st.floats(-1, 2)))
def test_every_value_stands_for_its_nearest_grade(n_grades, unit):
    scale = GradeScale(n_grades)
    grades = scale.from_unit(unit)
    assert set(grades) <= set(range(n_grades))
    clipped = np.clip(unit, 0, 1)
    nearest = abs(clipped[:, None] - scale.to_unit(np.arange(n_grades))).min(axis=1)
    assert abs(clipped - scale.to_unit(grades)) == pytest.approx(nearest, abs=1e-9)
    assert (np.diff(scale.from_unit(np.sort(unit))) >= 0).all()


# --- targets at the ends of double precision: answered right, or refused with the reason ---


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
