"""What `diffor predict` and `diffor evaluate` write of distributions in closed form."""

from argparse import Namespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import ClassifierMixin, RegressorMixin

from diffor.cli.evaluate import _amounts, _grades
from diffor.cli.predict import _answers
from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.grades import decide_grades
from diffor.estimators.conformal import open_intervals

TABLE = pd.DataFrame({"size": [1.0, 2.0]})
SPEND = CdfPrediction([0, 0, 10, 20], [[0, 0.5, 0.75, 1], [0, 0, 0.5, 1]])
GRADES = CdfPrediction([0, 0, 1, 1, 2, 2], [[0, 0.2, 0.2, 0.9, 0.9, 1], [0, 0, 0, 0.3, 0.3, 1]])
SHARES = [[0.2, 0.7, 0.1], [0.0, 0.3, 0.7]]


class Values(RegressorMixin):
    default_statistic, conformal_ = "median", None

    def predict_opened(self, table, threshold, n_samples=None, *, n_steps=None):
        return SPEND, None if threshold is None else open_intervals(SPEND, threshold, (0, 20))


class Grades(ClassifierMixin):
    classes_ = grades_ = np.array(["low", "mid", "high"])
    decision = "median"

    def predict_distribution(self, table, n_samples=None, *, n_steps=None):
        return GRADES

    def decide(self, prediction, probabilities, decision=None):
        return decide_grades(probabilities, "median")


def asked(**options):
    return Namespace(
        **{"samples": None, "steps": None, "statistic": None, "quantiles": None, "coverage": 0.8} | options
    )


@pytest.mark.parametrize(("threshold", "ends"), [(None, [[0, 12], [2, 18]]), (-0.245, [[0, 10], [5, 15]])])
def test_values_are_written_with_their_quantiles_and_intervals(threshold, ends):
    columns = list(_answers(Values(), TABLE, {}, asked(quantiles=[0.25, 0.75]), threshold))
    np.testing.assert_allclose(np.stack(columns, axis=1), np.hstack([[[0, 0, 10], [10, 5, 15]], ends]), atol=1e-6)


@pytest.mark.parametrize(("threshold", "ends"), [(None, ("low", "mid")), (0.0, ("mid", "mid"))])
def test_grades_are_written_with_their_exact_probabilities(threshold, ends):
    point, *shares, low, high = _answers(Grades(), TABLE, {}, asked(coverage=0.8), threshold)
    assert point.tolist() == ["mid", "high"]
    np.testing.assert_allclose(np.stack(shares, axis=1), SHARES, atol=1e-12)
    assert (low[0], high[0]) == ends


def test_evaluation_reads_the_closed_form():
    effort = {"n_samples": None, "n_steps": None}
    prediction, interval = _amounts(Values(), 0.8, effort)(TABLE)
    np.testing.assert_allclose(interval, SPEND.interval(0.8))
    assert prediction is SPEND
    _, probabilities, decided = _grades(Grades(), effort)(TABLE)
    np.testing.assert_allclose(probabilities, SHARES, atol=1e-12)
    assert decided.tolist() == [1, 2]
