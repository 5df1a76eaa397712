import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from diffor.priors.tree_masks import TreeMasks, mask_trees
from diffor.priors.trees import flatten, still


@pytest.mark.parametrize("leaves", [2, 15, 16, 31, 32, 64])
def test_masks_answer_as_following_the_trees_does(leaves):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 6)).astype(np.float32).round(1)  # many ties with the limits of the trees
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * x[:, 5]
    model = HistGradientBoostingRegressor(max_iter=30, max_depth=10, max_leaf_nodes=leaves, min_samples_leaf=2).fit(
        x, y
    )
    trees = flatten(model, 30)
    new = torch.from_numpy(generator.normal(size=(1111, 6)).astype(np.float32).round(1))
    masks = TreeMasks.of(trees)
    assert masks is not None
    np.testing.assert_array_equal(masks.predict(new), trees.predict(new))
    np.testing.assert_array_equal(torch.cat([masks.predict(row[None]) for row in new[:40]]), masks.predict(new)[:40])
    assert len(masks.predict(new[:0])) == 0


def test_trees_too_large_for_masks_are_left_to_be_followed(monkeypatch):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 2)).astype(np.float32)
    model = HistGradientBoostingRegressor(max_iter=2, max_depth=10, max_leaf_nodes=100, min_samples_leaf=2)
    large = flatten(model.fit(x, x[:, 0] * x[:, 1]), 2)
    assert TreeMasks.of(large) is None
    assert TreeMasks.of(still(0.5)) is None
    small = flatten(HistGradientBoostingRegressor(max_iter=2, max_leaf_nodes=4).fit(x, x[:, 0]), 2)
    monkeypatch.setattr("diffor.priors.tree_masks.MAX_BYTES", 10)
    assert TreeMasks.of(small) is None


def test_masks_in_parts_add_up(monkeypatch):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 3)).astype(np.float32)
    trees = flatten(HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=8).fit(x, x[:, 0] * x[:, 1]), 20)
    whole = mask_trees(trees)
    monkeypatch.setattr("diffor.priors.tree_masks.MAX_BYTES", whole[0].lines.nbytes - 1)
    parts = mask_trees(trees)
    assert len(whole) == 1 < len(parts)
    columns = torch.from_numpy(x)
    np.testing.assert_allclose(sum(part.predict(columns) for part in parts), trees.predict(columns), atol=1e-6)
