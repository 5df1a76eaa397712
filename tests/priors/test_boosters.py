import numpy as np
import pytest
import torch

from diffor.priors import boosters
from diffor.priors.boosters import Growth, Task


def make_task(n=600, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 4)).astype(np.float32).round(1)  # many ties with the limits of the trees
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * generator.normal(size=n)
    return Task(x[: n // 2], y[: n // 2], None, x[n // 2 :], y[n // 2 :], None)


def test_lightgbm_answers_the_same_without_lightgbm(monkeypatch):
    lightgbm = pytest.importorskip("lightgbm")
    models, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *args, **kwargs: models.append(train(*args, **kwargs)) or models[-1])
    task = make_task()
    trees = boosters.grow_by_lightgbm(task, Growth(200, 10, 0.1, 31, 5), seed=0)
    wanted = models[0].predict(task.check, num_iteration=models[0].best_iteration)
    np.testing.assert_allclose(trees.predict(torch.from_numpy(task.check)), wanted, atol=1e-5)


def test_catboost_answers_the_same_without_catboost(monkeypatch):
    catboost = pytest.importorskip("catboost")
    models, kind = [], catboost.CatBoostRegressor
    monkeypatch.setattr(
        catboost, "CatBoostRegressor", lambda *args, **kwargs: models.append(kind(*args, **kwargs)) or models[-1]
    )
    task = make_task()
    trees = boosters.grow_by_catboost(task, Growth(60, 10, 0.2, 64, 1, depth=5), seed=0)
    np.testing.assert_allclose(trees.predict(torch.from_numpy(task.check)), models[0].predict(task.check), atol=1e-5)


def test_a_missing_package_is_named(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(boosters.importlib, "import_module", refuse)
    with pytest.raises(ImportError, match="pip install lightgbm, or use prior='trees'"):
        boosters.grow_by_lightgbm(make_task(), Growth(2, 2, 0.1, 4, 5), seed=0)
