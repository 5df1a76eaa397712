import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from diffor.encoders.boosted_trees import MAX_DEPTH, boost_trees, flatten


def test_flat_trees_answer_as_the_library_does():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 5)).astype(np.float32).round(1)  # many ties with the limits of the trees
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]
    model = HistGradientBoostingRegressor(max_iter=40, max_depth=MAX_DEPTH).fit(x, y)
    new = generator.normal(size=(3000, 5)).astype(np.float32).round(1)
    answers = flatten(model, 40).predict(torch.from_numpy(new)).numpy()
    np.testing.assert_allclose(answers, model.predict(new), atol=1e-5)


def test_the_first_trees_are_the_first_rounds():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 3)).astype(np.float32)
    y = (x[:, 0] > 0) * 0.4 + 0.1 * x[:, 1]
    model = HistGradientBoostingRegressor(max_iter=10, max_depth=MAX_DEPTH).fit(x, y)
    stages, columns = list(model.staged_predict(x)), torch.from_numpy(x)
    np.testing.assert_allclose(flatten(model, 3).predict(columns).numpy(), stages[2], atol=1e-6)
    np.testing.assert_allclose(flatten(model, 0).predict(columns).numpy(), y.mean(), atol=1e-6)


def test_boosting_ends_where_the_check_rows_are_answered_no_better():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 3)).astype(np.float32)
    noise, check = generator.normal(size=400), generator.normal(size=400)
    nothing = boost_trees(x, noise, None, (x, check, None), rounds=200, seed=0)
    something = boost_trees(x, x[:, 0] + 0 * noise, None, (x, x[:, 0], None), rounds=200, seed=0)
    assert len(nothing.roots) < 20 < len(something.roots)
