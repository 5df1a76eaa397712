import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffor.datasets.open.synthetic import LAWS
from diffor.errors import UserError
from diffor.paper.paradigms.fitting import QUICK, draw_rows, fit_method
from diffor.paper.paradigms.vocabulary import (
    LAW,
    SMALL_DECODER,
    describe_vocabulary,
    paper_bound,
    sound_bound,
    swapped_tokens_error,
    token_covariances,
    vocabulary_tables,
)

Found = dict[str, Any]


@pytest.fixture
def found(quick_paradigms) -> Found:
    return quick_paradigms.vocabulary_tradeoff


@given(st.integers(1, 20), st.floats(0.1, 100))
def test_swapped_tokens_break_the_papers_bound_and_reach_the_sound_one(n_steps: int, width: float) -> None:
    bias, error = swapped_tokens_error(n_steps, width)
    assert error == pytest.approx(4 * paper_bound(n_steps, bias, width))
    assert error == pytest.approx(sound_bound(n_steps, bias, width))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6), st.integers(1, 5))
def test_no_error_exceeds_the_sound_bound(steps: list[tuple[float, float]], repeats: int) -> None:
    true, guessed = np.array(steps).T
    errors = np.stack([true - guessed, guessed - true] * repeats)  # rows are equally likely
    bias = np.abs(errors.mean(axis=0)).max()
    assert (errors.sum(axis=1) ** 2).mean() <= sound_bound(len(steps), bias, 1.0) + 1e-9


def test_a_bias_adds_its_square_over_all_steps() -> None:
    assert paper_bound(3, 2.0, 0.0) == sound_bound(3, 2.0, 0.0) == 36.0


def fitted(n_units: int, max_values: int) -> dict[str, float]:
    law = LAWS[LAW]
    rows = draw_rows(law, 300, [0])
    size = dataclasses.replace(QUICK, max_steps=2)
    model = fit_method("gr", rows, size, 0, law.bounds, **SMALL_DECODER, n_units=n_units, max_values=max_values)
    return describe_vocabulary(model, rows[1], draw_rows(law, 200, [1])[1])


def test_coarse_units_cannot_write_targets_exactly() -> None:
    coarse, fine = fitted(10, 64), fitted(300, 64)
    assert coarse["written_mae"] == pytest.approx(300 / 10 / 4, rel=0.2)  # quantisation of an even density
    assert fine["written_mae"] < coarse["written_mae"]
    assert fine["n_tokens"] > coarse["n_tokens"]
    assert coarse["cut"] == fine["cut"] == 0


def test_few_tokens_make_long_sequences_that_are_cut() -> None:
    few, many = fitted(300, 3), fitted(300, 64)
    assert few["n_tokens"] == 3
    assert few["longest"] > 18 >= many["longest"]
    assert many["cut"] == 0
    assert all(few[name] > many[name] for name in ("length", "cut", "written_mae", "bound"))
    assert many["rows_per_token"] < few["rows_per_token"] < 300


def test_all_are_measured_in_the_targets_units_and_the_excess_over_draws_of_the_law(found: Found) -> None:
    assert found["span"] == 300
    best = found["truth"]["crps"]["mean"]
    for one in (found["diffor"], *found["designs"]):
        assert 20 < best < one["crps"]["mean"] < 60
        assert one["excess"]["mean"] == pytest.approx(one["crps"]["mean"] - best)


def test_the_tables_hold_every_design(found: Found) -> None:
    bounds, designs, beside = vocabulary_tables(found)
    assert bounds.rows[0][2:] == ("1.00", "0.250", "1.00")
    assert len(designs.rows) == len(found["designs"])
    assert [row[0] for row in beside.rows] == ["DiffoR", "the law itself"]


def test_the_printed_covariance_step_fails_for_equal_errors():
    for count in (2, 3, 8):
        found = token_covariances(np.repeat([[1.0], [-1.0]], count, axis=1))
        assert found["covariances"] == count * (count - 1)
        assert found["printed"] == found["covariances"] / 2  # too small by a factor of two
        assert found["sound"] == found["covariances"]
        assert found["variance"] == found["variance_bound"] == count**2


def test_the_sound_covariance_step_holds_for_any_errors():
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(50):
        errors = rng.normal(size=(40, 1)) + rng.normal(size=(40, 5)) * rng.uniform(0, 2, size=5)
        found = token_covariances(errors)
        assert found["covariances"] <= found["sound"] + 1e-9
        assert found["variance"] <= found["variance_bound"] + 1e-9
        broken += found["covariances"] > found["printed"]
    assert 0 < broken < 50
    with pytest.raises(UserError, match=r"errors.shape=\(3,\)"):
        token_covariances([1.0, 2.0, 3.0])
