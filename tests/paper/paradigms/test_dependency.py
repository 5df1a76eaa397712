import dataclasses
import json

import numpy as np
import pytest

from diffor.datasets.open.synthetic import LAWS
from diffor.paper.paradigms import DependencyError, dependency_error, rebuild
from diffor.paper.paradigms.dependency import LAW, read_ranks, true_ranks
from diffor.paper.paradigms.fitting import QUICK, Measured, draw_rows, fit_method


@pytest.fixture(scope="module")
def found() -> DependencyError:
    return dependency_error(seed=0, quick=True)


def test_true_ranks_are_the_shares_of_draws() -> None:
    law = LAWS[LAW]
    x = law.inputs(20, np.random.default_rng(0))
    cuts = np.array([20.0, 60.0, 150.0])
    ranks = true_ranks(law, x, cuts)
    np.testing.assert_allclose(ranks.sum(axis=1), 1)
    drawn = np.searchsorted(cuts, law.draw(x, 20_000, np.random.default_rng(1)))
    shares = np.stack([(drawn == rank).mean(axis=1) for rank in range(4)], axis=1)
    np.testing.assert_allclose(ranks, shares, atol=0.02)


def test_the_ranks_that_are_read_are_those_of_the_estimator() -> None:
    law = LAWS[LAW]
    rows = draw_rows(law, 200, [0])
    model = fit_method("or-cnn", rows, QUICK, 0, law.bounds, n_bins=5)
    cuts, chances, ranks = read_ranks(model, rows[0])
    assert chances.shape == (200, 4)
    assert (np.diff(cuts) > 0).all()
    shares = np.bincount(np.searchsorted(cuts, rows[1], side="right"), minlength=5) / 200
    np.testing.assert_allclose(shares, 0.2, atol=0.04, err_msg="even shares of the rows lie between the thresholds")
    sampled = model.predict_distribution(rows[0], 2000).probabilities(cuts)
    np.testing.assert_allclose(ranks, sampled, atol=0.12)  # the estimator's samples are widened


def test_the_decomposition_holds_and_grows_with_the_thresholds(found: DependencyError) -> None:
    np.testing.assert_allclose(found.correlation, found.decomposition, atol=1e-9)
    assert found.correlation == sorted(found.correlation)
    assert found.impossible == sorted(found.impossible)
    assert found.correlation[0] == pytest.approx(0, abs=1e-12)


def test_only_bits_that_are_drawn_independently_can_be_impossible(found: DependencyError) -> None:
    for method in ("or-cnn", "coral"):
        one = found.of(method)
        assert one.impossible.mean > 0
        assert one.joint.mean > one.floor.mean > one.ranks.mean
        assert one.spread.mean < 1
    for method in ("corn", "diffor", "truth"):
        one = found.of(method)
        assert one.impossible.mean == one.rising.mean == 0
        assert one.joint == one.ranks


def test_draws_of_the_law_are_closest_to_it(found: DependencyError) -> None:
    assert found.of("truth").ranks.mean == min(one.ranks.mean for one in found.methods)


def test_shuffled_increments_are_broken_more_often(found: DependencyError) -> None:
    assert 0 <= found.broken_increments.mean < found.broken_if_independent.mean <= 1


def test_the_result_is_json_and_says_what_was_found(found: DependencyError) -> None:
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert rebuild(DependencyError, again) == found
    text = " ".join(found.sentences())
    assert str(found.of("or-cnn").joint) in text
    assert found.broken_increments.percent in text
    assert "the decomposition holds" in text


@pytest.mark.parametrize(
    ("deviation", "words"), [(0.0, "seeds: 8 ranks: CORN."), (0.2, "seeds: 8 ranks: CORN, DiffoR.")]
)
def test_who_is_closest_is_told_up_to_the_spread(found: DependencyError, deviation: float, words: str) -> None:
    figures = {"or-cnn": 3.0, "coral": 3.0, "corn": 1.0, "diffor": 1.1, "truth": 0.1}
    methods = [dataclasses.replace(one, ranks=Measured(figures[one.method], deviation)) for one in found.methods]
    assert words in " ".join(dataclasses.replace(found, methods=methods).sentences())
