import os
from pathlib import Path

import numpy as np
import pytest

from diffor import DATASETS, METRICS, load_dataset
from diffor.datasets.samples import random_split

UCI = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[3] / "shared" / "data")) / "uci"


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
        assert set(dataset.metrics) <= set(METRICS)


def test_diabetes_comes_with_a_package():
    samples = load_dataset("diabetes")
    train, test = DATASETS["diabetes"].split(None, 3)
    assert len(samples) == 442
    assert samples.x.shape == (442, 10)
    assert sorted([*train, *test]) == list(range(442))


def test_random_splits_are_seeded_and_disjoint():
    first, again, other = random_split(50, 0.2, 0), random_split(50, 0.2, 0), random_split(50, 0.2, 1)
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
    assert not set(first[0]) & set(first[1])


def test_uci_tables_are_read_in_their_layout(tmp_path):
    root = write_uci_miniature(tmp_path, "concrete")
    samples = load_dataset("concrete", root)
    assert samples.y.tolist() == [2.0, 5.0, 8.0, 11.0, 14.0, 17.0, 20.0, 23.0]
    assert samples.x.columns.tolist() == ["x0", "x1"]
    train, test = DATASETS["concrete"].split(root, 0)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3, 4, 5], [6, 7])


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of .*, however: name='concret'"):
        load_dataset("concret")
    with pytest.raises(ValueError, match="kin8nm is read from files, however: root=None"):
        load_dataset("kin8nm")
    with pytest.raises(FileNotFoundError, match=r"data\.txt does not exist: pass the folder that holds kin8nm/data"):
        load_dataset("kin8nm", tmp_path)


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "rows"), [("concrete", 1030), ("kin8nm", 8192), ("power-plant", 9568)])
def test_the_real_tables_are_read(name, rows):
    if not UCI.is_dir():
        pytest.skip("the UCI tables are not beside the project; set DIFFOR_DATA to their folder")
    samples = load_dataset(name, UCI)
    train, test = DATASETS[name].split(UCI, 0)
    assert len(samples) == rows
    assert sorted([*train, *test]) == list(range(rows))
