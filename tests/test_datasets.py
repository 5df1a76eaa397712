import pickle

import numpy as np
import pytest

from diffor import DATASETS, METRICS, load_dataset
from diffor.bench.cell import GRID_METRIC
from diffor.datasets import SUITES
from diffor.datasets.samples import random_group_split, random_split


def write_uci_miniature(root, name):
    folder = root / name / "data"
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", np.arange(24.0).reshape(8, 3))
    (folder / "index_features.txt").write_text("0\n1\n")
    (folder / "index_target.txt").write_text("2\n")
    (folder / "index_train_0.txt").write_text("0\n1\n2\n3\n4\n5\n")
    (folder / "index_test_0.txt").write_text("6\n7\n")
    return root


def test_every_row_of_the_table_keeps_the_contract():
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert dataset.description
        assert dataset.source
        assert set(dataset.metrics) <= {*METRICS, GRID_METRIC}
        assert dataset.task == ("grades" if dataset.n_grades else "value")
        assert dataset.bounds is None or dataset.bounds[0] < dataset.bounds[1]
        assert name == name.lower()
        assert " " not in name
        assert "_" not in name
        assert bool(dataset.truth) == (name in SUITES["synthetic"])  # only these know their truth
        assert pickle.loads(pickle.dumps(dataset)).name == name  # in another process


def test_every_data_set_is_in_one_suite():
    assert [*SUITES] == ["open", "shared", "synthetic", "paper", "foundation", "confirmation", "grades-images"]
    assert sorted(name for names in SUITES.values() for name in names) == sorted(DATASETS)
    assert len(SUITES["open"]) >= 8
    assert {"concrete", "era", "cdnow", "vlengagement"} <= set(SUITES["shared"])


def test_diabetes_comes_with_a_package():
    samples = load_dataset("diabetes")
    train, test = DATASETS["diabetes"].split(None, 3)
    assert len(samples) == 442
    assert samples.x.shape == (442, 10)
    assert sorted([*train, *test]) == list(range(442))


def test_random_splits_are_seeded_and_groups_stay_together():
    first, again, other = (random_split(50, 0.2, seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other
    groups = np.repeat(np.arange(20), 3)
    train, test = random_group_split(groups, 0.2, seed=1)
    assert not set(groups[train]) & set(groups[test])
    assert len(test) == 12
    assert not np.array_equal(test, random_group_split(groups, 0.2, seed=2)[1])


@pytest.mark.parametrize("below", ["", "uci"])
def test_uci_tables_are_read_in_their_layout(tmp_path, below):
    root = tmp_path
    write_uci_miniature(tmp_path / below, "concrete")
    samples = load_dataset("concrete", root)
    assert samples.y.tolist() == [2.0, 5.0, 8.0, 11.0, 14.0, 17.0, 20.0, 23.0]
    assert samples.x.columns.tolist() == ["x0", "x1"]
    train, test = DATASETS["concrete"].split(root, 0)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3, 4, 5], [6, 7])


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of .*, but got name='concret'"):
        load_dataset("concret")
    with pytest.raises(ValueError, match="kin8nm is read from files, but got root=None"):
        load_dataset("kin8nm")
    with pytest.raises(FileNotFoundError, match=r"data\.txt does not exist: pass the folder that holds uci/kin8nm"):
        load_dataset("kin8nm", tmp_path)


def test_a_damaged_uci_table_is_named(tmp_path):
    folder = write_uci_miniature(tmp_path, "kin8nm") / "kin8nm" / "data"
    with pytest.raises(ValueError, match="index must name one of the 1 given splits of kin8nm, but got index=7"):
        DATASETS["kin8nm"].split(tmp_path, 7)
    (folder / "index_target.txt").write_text("3\n")
    with pytest.raises(ValueError, match=r"data must name columns below 3, but .*target \[3\]; fetch"):
        load_dataset("kin8nm", tmp_path)
    (folder / "data.txt").write_text("1 2 3\n4 5\n")
    with pytest.raises(ValueError, match=r"data\.txt must hold numbers in lines of one length, but .*; fetch"):
        load_dataset("kin8nm", tmp_path)
