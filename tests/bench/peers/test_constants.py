import numpy as np
import pandas as pd

from diffor.bench.peers.constants import CONSTANTS, fit_constant
from diffor.bench.peers.problem import Problem

TABLE = pd.DataFrame({"size": np.arange(150.0)})


def test_constant_is_the_distribution_of_the_training_targets() -> None:
    y = np.random.default_rng(0).normal(size=150)
    prediction = fit_constant(Problem(TABLE, y, TABLE, y)).predict(TABLE[:7])
    assert prediction.samples.shape == (7, 100)
    np.testing.assert_allclose(prediction.median, np.median(y), atol=0.05)
    assert np.ptp(prediction.samples, axis=0).max() == 0


def test_constant_of_grades_has_their_shares() -> None:
    y = np.repeat([0.0, 2.0], [30, 120])
    prediction = fit_constant(Problem(TABLE, y, TABLE, y, n_grades=4)).predict(TABLE[:1])
    np.testing.assert_array_equal(np.unique(prediction.samples, return_counts=True), [[0, 2], [20, 80]])


def test_the_table_names_it() -> None:
    assert [(peer.name, peer.tasks, peer.package) for peer in CONSTANTS] == [("constant", ("value", "grades"), None)]
