"""The twelve sets of the paper: every row is on exactly the side that its protocol gives it, whatever is run on it."""

from dataclasses import replace
from pathlib import Path

import miniatures_images
import miniatures_tables
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffor.bench import cell as cell_module
from diffor.bench.cell import Cell, choose_rows, make_problem, run_cell
from diffor.bench.peers import PEERS, Peer, find_peer
from diffor.bench.peers.problem import all_rows
from diffor.datasets import DATASETS, SUITES
from diffor.datasets.paper import lifetime, watchtime
from diffor.datasets.readers.reading import Place
from diffor.datasets.splits import split_samples

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

PROTOCOLS = {"fgnet": "one-out", "cacd": "rank"}
"""Of sets of images; the others are divided by chance."""
TABLES = {"kuairec": watchtime.split_kuairec, "kuairand": watchtime.split_kuairand,
          "criteo": lifetime.split_criteo, "shoppers": lifetime.split_shoppers}  # fmt: skip
SHARES = {"utkface": (0.8, 0.1, 0.1), "ava": (0.8, 0.1, 0.1), "tad66k": (0.8, 0.1, 0.1), "icaa17k": (0.8, 0.1, 0.1),
          "spaq": (0.8, 0.1, 0.1), "criteo": (0.7, 0.1, 0.2), "shoppers": (0.7, 0.1, 0.2)}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = miniatures_images.write_image_sets(tmp_path_factory.mktemp("data"))
    for write in (miniatures_tables.write_kuairec, miniatures_tables.write_kuairand, miniatures_tables.write_criteo):
        write(folder)
    miniatures_tables.write_shoppers(folder / "shoppers")
    return str(folder)


def a_cell(name, seed=0, **changes):
    return Cell(**{"dataset": name, "method": "constant", "seed": seed, "peer": "constant", **changes})


def protocol(name, root, samples, seed):
    if name in TABLES:
        return TABLES[name](Place(Path(root), name), seed)
    return split_samples(samples, seed, PROTOCOLS.get(name, "random"))


@pytest.mark.parametrize("name", SUITES["paper"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 5))
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


@pytest.mark.parametrize("name", SHARES)
def test_shares_are_those_of_the_paper(root, name):
    samples = DATASETS[name].read(root)
    parts = choose_rows(DATASETS[name], samples, a_cell(name, 1), root)
    shares = np.array([len(rows) for rows in (parts.train, parts.valid, parts.test)]) / len(samples)
    assert shares == pytest.approx(SHARES[name], abs=0.04)


def test_later_days_validate_and_the_last_are_tested_on(root):
    columns, _ = watchtime._kuairand_log(Place(Path(root), "kuairand"), "raise")
    samples = DATASETS["kuairand"].read(root)
    parts = choose_rows(DATASETS["kuairand"], samples, a_cell("kuairand"), root)
    date = columns["date"]
    assert date[parts.train].max() <= 20220421 < date[parts.valid].min()
    assert date[parts.valid].max() <= 20220428 < date[parts.test].min()


def test_celebrities_of_the_first_ranks_are_learned_from_by_nobody(root):
    samples = DATASETS["cacd"].read(root)
    parts = choose_rows(DATASETS["cacd"], samples, a_cell("cacd"), root)
    assert set(samples.side["rank"][parts.valid]) == {1, 2}
    assert set(samples.side["rank"][parts.test]) == {3, 4, 5}
    assert samples.side["rank"][parts.train].min() == 6


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


def test_a_set_without_such_a_protocol_learns_from_all_rows_where_nothing_is_stopped(monkeypatch):
    seen = {}

    def fit(problem):
        seen["rows"] = len(all_rows(problem)[1])
        return PEERS["constant"].fit(problem)

    monkeypatch.setattr(cell_module, "find_peer", lambda name: Peer("seeing", "", ("value",), fit))
    line = run_cell(a_cell("diabetes"))
    assert seen["rows"] == line["n_train"] + line["n_valid"]


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
