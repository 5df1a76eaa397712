"""Borders: increments of any width, steps at values that repeat, and the distribution functions read off them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffor.methods.diffor import split_increments
from diffor.methods.diffor.borders import Borders


def targets(seed: int, n: int = 300, atom: float | None = 0.3) -> np.ndarray:
    draw = np.random.default_rng(seed)
    y = draw.random(n) ** 2
    if atom is not None:
        y[: n // 3] = atom
    return y


def test_even_borders_are_the_papers_increments() -> None:
    y = torch.rand(50, dtype=torch.float64)
    width = 1 / 8
    assert torch.allclose(Borders.even(8).fill(y) * width, split_increments(y, 8))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([None, 0.0, 0.3, 1.0]))
def test_a_thermometer_fills_from_below_and_gives_the_target_back(seed: int, count: int, atom: float | None) -> None:
    y = targets(seed, atom=atom)
    borders = Borders.place(y, count)
    filled = borders.fill(torch.from_numpy(y)).numpy()
    assert ((filled >= 0) & (filled <= 1)).all()
    assert (np.diff(filled, axis=1) <= 1e-12).all(), "no increment is fuller than the one before it"
    if not borders.is_discrete:
        widths = borders.layout.upper - borders.layout.lower
        assert np.allclose(borders.edges[0] + filled @ widths, y), "filled widths sum to the target"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 30), st.sampled_from([None, 0.0, 0.3, 1.0]))
def test_the_empirical_survival_gives_the_empirical_distribution(seed: int, count: int, atom: float | None) -> None:
    """The mean thermometer of all rows is their survival function: its knots lie on the empirical distribution."""
    y = targets(seed, atom=atom)
    borders = Borders.place(y, count)
    survival = borders.fill(torch.from_numpy(y)).double().mean(dim=0, keepdim=True).numpy()
    heights, knots = borders.heights(survival)[0], borders.layout.knots
    assert heights[0] == 0
    assert heights[-1] == 1
    assert (np.diff(heights) >= -1e-12).all()
    assert (np.diff(knots) >= 0).all()
    if atom is not None:  # an atom's two heights are the probabilities of less and of no more
        at = np.flatnonzero(np.isclose(knots, atom))
        assert np.allclose(heights[at], [(y < atom).mean(), (y <= atom).mean()])


def test_grades_have_a_step_for_each_border() -> None:
    borders = Borders.at_values(np.linspace(0, 1, 4))
    assert len(borders) == 3
    assert borders.fill(torch.tensor([0.0, 1 / 3, 1.0])).tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 1]]
    heights = borders.heights(np.array([[0.9, 0.5, 0.2]]))
    assert np.allclose(heights, [[0, 0.1, 0.1, 0.5, 0.5, 0.8, 0.8, 1]])


def test_few_values_that_repeat_are_steps_and_few_rows_of_a_smooth_target_are_not() -> None:
    assert Borders.place(np.arange(300) % 7 / 6).is_discrete
    assert not Borders.place(np.random.default_rng(0).random(60)).is_discrete


def test_one_value_needs_no_increments_and_is_certain() -> None:
    borders = Borders.place(np.full(10, 0.4))
    assert len(borders) == 0
    assert borders.heights(np.zeros((2, 0))).tolist() == [[0, 1], [0, 1]]
    assert borders.layout.knots.tolist() == [0.4, 0.4]


def test_atoms_take_no_intervals_from_the_rest() -> None:
    y = np.concatenate([np.zeros(900), np.random.default_rng(0).random(100)])
    assert len(Borders.place(y, 32).edges) >= 32


def test_rows_of_weight_zero_are_not_there() -> None:
    y = targets(0)
    extreme = np.append(y, [5.0, 5.0])
    weights = np.append(np.ones(len(y)), [0.0, 0.0])
    assert np.array_equal(Borders.place(extreme, 16, weights).edges, Borders.place(y, 16).edges)


def test_a_row_that_counts_twice_is_two_rows() -> None:
    y = targets(1)
    twice = Borders.place(np.append(y, y[:50]), 16)
    weighted = Borders.place(y, 16, np.where(np.arange(len(y)) < 50, 2.0, 1.0))
    assert np.allclose(twice.edges, weighted.edges)
    assert np.array_equal(twice.is_atom, weighted.is_atom)


@pytest.mark.parametrize("atom", [None, 0.0, 0.3])
def test_positions_rise_and_follow_the_coordinate(atom: float | None) -> None:
    y = targets(3, atom=atom)
    reference, borders = Borders.place(y, 128), Borders.place(y, 20)
    positions = reference.positions(borders)
    assert (np.diff(positions) > 0).all()
    assert ((positions > 0) & (positions < 1)).all()
    own = borders.positions(borders)
    assert np.allclose(own, (np.arange(len(borders)) + 0.5) / len(borders))


def test_borders_survive_json() -> None:
    borders = Borders.place(targets(4))
    other = Borders.from_json(borders.to_json())
    assert np.array_equal(other.layout.knots, borders.layout.knots)
    assert np.array_equal(other.widths, borders.widths)


def test_widths_of_steps_between_values_are_their_distances() -> None:
    assert np.allclose(Borders.at_values([0.0, 0.25, 1.0]).widths, [0.25, 0.75])


def test_middles_lie_inside_their_increments() -> None:
    borders = Borders.place(np.r_[np.zeros(40), np.random.default_rng(0).random(200)], 8)
    lower, upper = borders.layout[:2]
    assert (borders.middles >= lower).all()
    assert (borders.middles <= upper).all()
    assert (np.diff(borders.middles) >= 0).all()
