from typing import Any

import numpy as np
import pytest

from diffor.datasets.open.synthetic import LAWS
from diffor.paper.paradigms.dependency import LAW, dependency_tables, read_ranks, true_ranks
from diffor.paper.paradigms.fitting import QUICK, draw_rows, fit_method

Found = dict[str, Any]


@pytest.fixture
def found(quick_paradigms) -> Found:
    return quick_paradigms.dependency_error


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


def test_the_decomposition_holds_and_grows_with_the_thresholds(found: Found) -> None:
    np.testing.assert_allclose(found["correlation"], found["decomposition"], atol=1e-9)
    assert found["correlation"] == sorted(found["correlation"])
    assert found["impossible"] == sorted(found["impossible"])
    assert found["correlation"][0] == pytest.approx(0, abs=1e-12)


def test_only_bits_that_are_drawn_independently_can_be_impossible(found: Found) -> None:
    methods = {one["method"]: one for one in found["methods"]}
    for method in ("or-cnn", "coral"):
        means = {name: value["mean"] for name, value in methods[method].items() if isinstance(value, dict)}
        assert means["impossible"] > 0
        assert means["joint"] > means["floor"] > means["ranks"]
        assert means["spread"] < 1
    for method in ("corn", "diffor", "truth"):
        assert methods[method]["impossible"]["mean"] == methods[method]["rising"]["mean"] == 0
        assert methods[method]["joint"] == methods[method]["ranks"]
    assert min(methods.values(), key=lambda one: one["ranks"]["mean"])["method"] == "truth"


def test_shuffled_increments_are_broken_more_often(found: Found) -> None:
    assert 0 <= found["broken_increments"]["mean"] < found["broken_if_independent"]["mean"] <= 1


def test_the_tables_hold_every_method(found: Found) -> None:
    exact, methods, increments = dependency_tables(found)
    assert [row[0] for row in exact.rows] == [str(count) for count in found["thresholds"]]
    assert [row[0] for row in methods.rows] == ["OR-CNN", "CORAL", "CORN", "DiffoR", "the law itself"]
    assert "±" in increments.rows[0][1]
