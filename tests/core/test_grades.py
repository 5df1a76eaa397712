import numpy as np
import pytest

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.grades import Spread, decide_grades
from diffor.core.prediction import Prediction


def make_probabilities(n: int = 4000, n_grades: int = 6, seed: int = 0) -> np.ndarray:
    """Rows whose grades differ a little in their means and much around them."""
    generator = np.random.default_rng(seed)
    centres = generator.normal((n_grades - 1) / 2, 0.6, (n, 1))
    weights = np.exp(-(((np.arange(n_grades) - centres) / 1.5) ** 2))
    return weights / weights.sum(axis=1, keepdims=True)


def test_kappa_of_moved_means_is_largest_at_the_spread():
    probabilities = make_probabilities()
    grades = np.arange(6)
    means, centre = probabilities @ grades, Spread.of(probabilities).centre
    # The kappa that is expected where the probabilities are right, of real-valued answers, in closed form.
    truth = probabilities.mean(axis=0) @ grades**2 - centre**2
    factors = np.linspace(0.5, 8, 751)
    answers = centre + factors[:, None] * (means - centre)
    apart = (probabilities @ grades**2).mean() - 2 * (answers * means).mean(axis=1) + (answers**2).mean(axis=1)
    kappa = 1 - apart / (answers.var(axis=1) + truth)
    assert factors[kappa.argmax()] == pytest.approx(Spread.of(probabilities).factor, abs=0.02)


def test_equal_means_are_left_alone_and_answers_stay_grades():
    same = np.tile([0.2, 0.3, 0.5], (5, 1))
    assert Spread.of(same) == Spread(pytest.approx(1.3), 1.0)
    assert decide_grades(same, "qwk", Spread.of(same)).tolist() == [1] * 5
    sure = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert Spread.of(sure) == Spread(1.0, 1.0)  # what is certain need not be moved
    assert decide_grades(sure, "qwk", Spread(1.0, 9.0)).tolist() == [0, 2]
    assert decide_grades(sure, "median", Spread(1.0, 9.0)).tolist() == [0, 2]


def test_probabilities_of_grades_are_those_of_either_form():
    shares = np.random.default_rng(0).dirichlet(np.ones(4), size=50)
    sums = np.concatenate([np.zeros((50, 1)), shares.cumsum(axis=1)], axis=1)
    exact = CdfPrediction(np.repeat(np.arange(4), 2), np.repeat(sums, 2, axis=1)[:, 1:-1])
    np.testing.assert_allclose(exact.grade_probabilities(4), shares, atol=1e-12)
    np.testing.assert_allclose(Prediction(exact.samples).grade_probabilities(4), shares, atol=0.02)
    assert exact[:1].map(lambda grade: 0 * grade).grade_probabilities(1).tolist() == [[1.0]]
