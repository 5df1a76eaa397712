import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

from diffor.files.schema import MisfitError
from diffor.priors import trees as trees_module
from diffor.priors.forest import MAX_TREE_DEPTH, N_TREES, _nodes
from diffor.priors.trees import (
    MAX_DEPTH,
    Growth,
    Task,
    flatten,
    flatten_nodes,
    grow_by_sklearn,
    join_trees,
    split_trees,
    still,
)


def make_rows(n=2000, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 5)).astype(np.float32).round(1)  # many ties with the limits of the trees
    return x, np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]


def test_flat_trees_answer_as_the_library_does():
    x, y = make_rows()
    model = HistGradientBoostingRegressor(max_iter=40, max_depth=MAX_DEPTH).fit(x, y)
    new = make_rows(3000, seed=1)[0]
    answers = flatten(model, 40).predict(torch.from_numpy(new)).numpy()
    np.testing.assert_allclose(answers, model.predict(new), atol=1e-5)


def test_the_first_trees_are_the_first_rounds():
    x, y = make_rows(400)
    model = HistGradientBoostingRegressor(max_iter=10, max_depth=MAX_DEPTH).fit(x, y)
    stages, columns = list(model.staged_predict(x)), torch.from_numpy(x)
    np.testing.assert_allclose(flatten(model, 3).predict(columns).numpy(), stages[2], atol=1e-6)
    np.testing.assert_allclose(flatten(model, 0).predict(columns).numpy(), y.mean(), atol=1e-6)


def test_trees_of_a_forest_answer_as_the_library_does():
    x, y = make_rows(500)
    model = ExtraTreesRegressor(N_TREES, min_samples_leaf=3, max_depth=MAX_TREE_DEPTH, random_state=0).fit(x, y)
    trees = flatten_nodes([_nodes(tree.tree_) for tree in model.estimators_], 0.0)
    np.testing.assert_allclose(trees.predict(torch.from_numpy(x), MAX_TREE_DEPTH), model.predict(x), atol=1e-5)


def test_boosting_ends_where_the_check_rows_are_answered_no_better():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 3)).astype(np.float32)
    noise, check = generator.normal(size=400), generator.normal(size=400)
    growth = Growth(rounds=200, patience=15, rate=0.1, leaves=15, min_leaf=5)
    nothing = grow_by_sklearn(Task(x, noise, None, x, check, None), growth, seed=0)
    something = grow_by_sklearn(Task(x, x[:, 0], None, x, x[:, 0], None), growth, seed=0)
    assert len(nothing.roots) < 20 < len(something.roots)


def test_joined_trees_answer_with_the_mean_and_parts_add_up():
    x, y = make_rows(600)
    first, second = (
        flatten(HistGradientBoostingRegressor(max_iter=8, max_depth=5).fit(x[:, part], y), 8)
        for part in (slice(0, 3), slice(2, 5))
    )
    columns = torch.from_numpy(x)
    mean = (first.predict(columns[:, :3]) + second.predict(columns[:, 2:])) / 2
    joined = join_trees([first, second], [0, 2], width=3, n_columns=5)
    np.testing.assert_allclose(joined.predict(columns), mean, atol=1e-6)
    parts = split_trees(joined, 3)
    assert [len(part.roots) for part in parts] == [5, 5, 6]
    np.testing.assert_allclose(sum(part.predict(columns) for part in parts), joined.predict(columns), atol=1e-6)


def test_a_column_behind_the_others_is_shared_by_all():
    x, y = make_rows(600)
    trees = flatten(HistGradientBoostingRegressor(max_iter=8, max_depth=5).fit(x[:, [0, 1, 2]], y), 8)
    joined = join_trees([trees, still(1.0)], [2, 0], width=2, n_columns=4)
    apart = torch.from_numpy(x[:, [3, 4, 0, 1, 2]])  # its own two columns begin at 2, the shared one stands last
    wanted = (trees.predict(torch.from_numpy(x[:, [0, 1, 2]])) + 1) / 2
    np.testing.assert_allclose(joined.predict(apart), wanted, atol=1e-6)


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
    trees = trees_module.grow_by_lightgbm(task, Growth(200, 10, 0.1, 31, 5), seed=0)
    wanted = models[0].predict(task.check, num_iteration=models[0].best_iteration)
    np.testing.assert_allclose(trees.predict(torch.from_numpy(task.check)), wanted, atol=1e-5)


def test_catboost_answers_the_same_without_catboost(monkeypatch):
    catboost = pytest.importorskip("catboost")
    models, kind = [], catboost.CatBoostRegressor
    monkeypatch.setattr(
        catboost, "CatBoostRegressor", lambda *args, **kwargs: models.append(kind(*args, **kwargs)) or models[-1]
    )
    task = make_task()
    trees = trees_module.grow_by_catboost(task, Growth(60, 10, 0.2, 64, 1, depth=5), seed=0)
    np.testing.assert_allclose(trees.predict(torch.from_numpy(task.check)), models[0].predict(task.check), atol=1e-5)


def test_a_missing_package_is_named(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(trees_module.importlib, "import_module", refuse)
    with pytest.raises(ImportError, match="pip install lightgbm, or use prior='trees'"):
        trees_module.grow_by_lightgbm(make_task(), Growth(2, 2, 0.1, 4, 5), seed=0)


def grown_trees():
    x, y = make_rows(300)
    trees = flatten(HistGradientBoostingRegressor(max_iter=6, max_depth=4).fit(x, y), 6)
    return join_trees([trees, trees], [0, 0], 5, 5)


def test_trees_that_were_grown_are_found_sound():
    grown_trees().check("trees", 5)
    flatten_nodes([], 0.5).check("trees", 1)


@pytest.mark.parametrize("seed", range(40))
def test_rows_stay_inside_whatever_passes_the_check(seed):
    """Of trees with a few entries changed at random, those that pass end in a leaf for every row."""
    draw, trees = np.random.default_rng(seed), grown_trees()
    tables = {name: table.clone() for name, table in trees._asdict().items()}
    name = ("child", "roots", "feature", "limit")[seed % 4]
    places = draw.integers(0, len(tables[name]), 2)
    change = {"child": draw.integers(-2, len(trees.child) + 2, 2), "roots": draw.integers(0, len(trees.child), 2),
              "feature": draw.integers(-1, 7, 2), "limit": draw.choice([np.nan, np.inf, -np.inf, 0.0], 2)}  # fmt: skip
    tables[name][places] = torch.from_numpy(change[name]).to(tables[name].dtype)
    changed = trees._replace(**tables)
    is_same = all(torch.equal(one, other) for one, other in zip(trees, changed, strict=True))
    try:
        changed.check("trees", 5)
    except MisfitError:
        assert not is_same
        return
    rows = torch.from_numpy(make_rows(200, seed=2)[0])
    answers = changed.predict(rows, len(changed.child))
    assert bool(answers.isfinite().all())
    assert name in ("feature", "limit") or is_same  # no other way to lead through the same nodes was drawn


def test_a_leaf_that_is_shared_by_two_nodes_is_refused():
    trees = grown_trees()
    inner = torch.nonzero(trees.child != torch.arange(len(trees.child)))[:, 0]
    child = trees.child.clone()
    child[inner[0]] = child[inner[1]]  # rows would multiply level by level
    with pytest.raises(MisfitError, match=r"trees\.child must lead from each root to all nodes of its tree, once each"):
        trees._replace(child=child).check("trees", 5)
