import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffor.datasets.open.synthetic import LAWS
from diffor.paper.paradigms import VocabularyTradeoff, rebuild, vocabulary_tradeoff
from diffor.paper.paradigms.fitting import QUICK, Measured, draw_rows, fit_method
from diffor.paper.paradigms.vocabulary import (
    LAW,
    SMALL_DECODER,
    describe_vocabulary,
    paper_bound,
    sound_bound,
    swapped_tokens_error,
)


@pytest.fixture(scope="module")
def found() -> VocabularyTradeoff:
    return vocabulary_tradeoff(seed=0, quick=True)


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


def fitted(n_units: int, max_values: int) -> tuple[object, float]:
    law = LAWS[LAW]
    rows = draw_rows(law, 300, [0])
    size = dataclasses.replace(QUICK, max_steps=2)
    model = fit_method("gr", rows, size, 0, law.bounds, **SMALL_DECODER, n_units=n_units, max_values=max_values)
    return describe_vocabulary(model, rows[1], draw_rows(law, 200, [1])[1])


def test_coarse_units_cannot_write_targets_exactly() -> None:
    (coarse, _), (fine, _) = fitted(10, 64), fitted(300, 64)
    assert coarse.mae == pytest.approx(300 / 10 / 4, rel=0.2)  # a quarter of a unit: quantisation of an even density
    assert fine.mae < coarse.mae
    assert fine.n_tokens > coarse.n_tokens
    assert coarse.cut == fine.cut == 0


def test_few_tokens_make_long_sequences_that_are_cut() -> None:
    (few, bound_of_few), (many, bound_of_many) = fitted(300, 3), fitted(300, 64)
    assert few.n_tokens == 3
    assert few.length > many.length
    assert few.longest > 18 >= many.longest
    assert few.cut > many.cut == 0
    assert few.mae > many.mae
    assert many.rows_per_token < few.rows_per_token < 300
    assert bound_of_few > bound_of_many > 0


def test_all_are_measured_in_the_targets_units(found: VocabularyTradeoff) -> None:
    assert found.span == 300
    best = found.truth["crps"].mean
    assert 20 < best < found.diffor["crps"].mean < 60
    assert all(best < design.crps.mean < 60 for design in found.designs)


def test_the_result_is_json_and_says_what_was_found(found: VocabularyTradeoff) -> None:
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert rebuild(VocabularyTradeoff, again) == found
    text = " ".join(found.sentences())
    assert "4 times too small" in text
    assert str(found.diffor["excess"]) in text
    assert str(found.designs[0].written_mae) in text


@pytest.mark.parametrize(
    ("difference", "words"),
    [(-2.0, "law, less than the best"), (2.0, "law, more than the best"), (0.5, "law, up to the spread over seeds as")],
)
def test_who_is_better_is_computed(found: VocabularyTradeoff, difference: float, words: str) -> None:
    ours = Measured(found.designs[0].excess.mean + difference, 1.0)
    changed = dataclasses.replace(found, diffor={**found.diffor, "excess": ours})
    assert words in " ".join(changed.sentences())


def test_the_excess_is_over_draws_of_the_law_on_the_same_rows(found: VocabularyTradeoff) -> None:
    for crps, excess in [(found.diffor["crps"], found.diffor["excess"])] + [
        (design.crps, design.excess) for design in found.designs
    ]:
        assert excess.mean == pytest.approx(crps.mean - found.truth["crps"].mean)
