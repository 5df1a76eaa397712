"""``random_state`` fixes everything, in threads, processes, joblib's workers and forks."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed

from diffor import DiffoRRegressor, OrdinalClassifier, OrdinalRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.random((90, 3))
Y = 10 * X[:, 0] + RANDOM.normal(0, 0.5, 90)
MAKERS = {
    "core": lambda: DiffoRRegressor("fast", max_steps=8, random_state=0, verbose=0),
    "chain": lambda: DiffoRRegressor("paper", max_steps=3, random_state=0, verbose=0),
    "dropout of PyTorch": lambda: OrdinalClassifier("poe", max_steps=10, random_state=0, verbose=0),
    "noise": lambda: OrdinalRegressor("egmn", max_steps=10, random_state=0, verbose=0),
}


def answer(name: str, shift: int = 0) -> np.ndarray:
    model = MAKERS[name]()
    model.random_state += shift
    if hasattr(model, "grades"):
        return model.fit(X, np.digitize(Y, [2, 5, 8])).predict_proba(X)
    return model.fit(X, Y).predict_distribution(X).mean


@pytest.mark.parametrize("name", MAKERS)
def test_fits_in_threads_are_those_of_one_after_the_other(name):
    alone = [answer(name, shift) for shift in range(2)]
    assert not np.array_equal(alone[0], alone[1])
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(answer, [name] * 2, range(2)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("backend", ["loky"])
def test_joblib(backend):
    models = [MAKERS["core"]().set_params(random_state=shift) for shift in range(2)]
    found = Parallel(2, backend=backend)(delayed(model.fit)(X, Y) for model in models)
    for shift, one in enumerate(found):
        np.testing.assert_array_equal(one.predict_distribution(X).mean, answer("core", shift))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_fits():
    expected = answer("dropout of PyTorch")
    context = multiprocessing.get_context("fork")
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(answer, "dropout of PyTorch")
        with context.Pool(1) as child:
            forked = child.apply_async(answer, ("dropout of PyTorch",)).get(timeout=120)
        np.testing.assert_array_equal(busy.result(), expected)
    np.testing.assert_array_equal(forked, expected)


@pytest.mark.parametrize("name", MAKERS)
def test_a_fit_leaves_the_process_s_generators_alone(name):
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    answer(name)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
