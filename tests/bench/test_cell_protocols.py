"""The twelve sets of the paper: every row is on exactly the side that its protocol gives it, whatever is run on it."""

from dataclasses import replace

import miniatures_images
import miniatures_tables
import numpy as np
import pytest

from diffor.bench.cell import Cell, choose_rows, make_problem
from diffor.bench.peers import find_peer
from diffor.bench.peers.problem import all_rows
from diffor.datasets import DATASETS, SUITES
from diffor.datasets.paper import lifetime, watchtime
from diffor.datasets.splits import split_samples

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

PROTOCOLS = {"fgnet": "one-out", "cacd": "rank"}
"""Of sets of images; the others are divided by chance."""
TABLES = {"kuairec": watchtime.split_kuairec, "kuairand": watchtime.split_kuairand,
          "criteo": lifetime.split_criteo, "shoppers": lifetime.split_shoppers}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = miniatures_images.write_image_sets(tmp_path_factory.mktemp("data"))
    miniatures_tables.write_table_sets(folder)
    return str(folder)


def a_cell(name, seed=0, **changes):
    return Cell(**{"dataset": name, "method": "constant", "seed": seed, "peer": "constant", **changes})


def protocol(name, root, samples, seed):
    if name in TABLES:
        return TABLES[name](root, seed)
    return split_samples(samples, seed, PROTOCOLS.get(name, "random"))


@pytest.mark.parametrize("name", SUITES["paper"])
@pytest.mark.parametrize("seed", [0, 3])
def test_every_row_is_on_the_side_of_its_protocol(root, name, seed):
    dataset = DATASETS[name]
    samples = dataset.read(root)
    expected = protocol(name, root, samples, seed)
    parts = choose_rows(dataset, samples, a_cell(name, seed), root)
    assert parts.train.tolist() == expected.training.tolist()
    assert parts.valid.tolist() == expected.validation.tolist()
    assert parts.test.tolist() == expected.test.tolist()
    assert sorted([*parts.train, *parts.valid, *parts.test]) == list(range(len(samples)))
    assert len(parts.valid) > 0
    problem = make_problem(dataset, samples, parts, a_cell(name, seed))
    assert problem.x.equals(samples.x.iloc[expected.training])
    assert problem.x_valid.equals(samples.x.iloc[expected.validation])
    assert len(all_rows(problem)[1]) == len(expected.training)


def test_a_limit_holds_for_training_and_validation_together(root):
    dataset = DATASETS["criteo"]
    samples = dataset.read(root)
    whole = choose_rows(dataset, samples, a_cell("criteo"), root)
    parts = choose_rows(dataset, samples, a_cell("criteo", max_train_rows=80, max_test_rows=20), root)
    assert (len(parts.train) + len(parts.valid), len(parts.test)) == (80, 20)
    assert len(parts.valid) == round(80 * len(whole.valid) / (len(whole.train) + len(whole.valid)))
    for part in ("train", "valid", "test"):
        assert set(getattr(parts, part)) <= set(getattr(whole, part))


@pytest.mark.parametrize("peer", ["diffor-fast", "diffor-paper", "method:mdn"])
def test_validation_rows_reach_a_model_as_such(root, peer):
    dataset = DATASETS["kuairand"]
    samples = dataset.read(root)
    cell = a_cell("kuairand", peer=peer)
    parts = choose_rows(dataset, samples, cell, root)
    problem = make_problem(dataset, samples, parts, cell)
    own = {"prior": None} if peer == "diffor-fast" else {}
    fitted = find_peer(peer).fit(problem, max_steps=2, batch_size=16, evaluate_every=2, **own)
    assert fitted.estimator.data_summary_["rows"] == len(parts.train)
    assert fitted.estimator.data_summary_["validation_rows"] == len(parts.valid)


def test_a_protocol_without_validation_rows_has_some_drawn(root):
    dataset = DATASETS["kuairand"]
    samples = dataset.read(root)
    without = replace(
        dataset, parts=lambda root, index: (np.arange(50), np.arange(0), np.arange(50, len(samples))),
        split=lambda root, index: (np.arange(50), np.arange(50, len(samples))),
    )  # fmt: skip
    parts = choose_rows(without, replace(samples, groups=None), a_cell("kuairand"), root)
    assert (len(parts.train), len(parts.valid)) == (45, 5)
    assert set(parts.train) | set(parts.valid) == set(range(50))
