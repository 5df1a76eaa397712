"""The paper's twelve benchmarks as rows of a table: each keeps the contract, and all can share one folder."""

import pickle
from pathlib import Path

import miniatures_images
import numpy as np
import pytest
from miniatures_tables import write_criteo, write_kuairand, write_kuairec, write_shoppers

from diffor import METRICS
from diffor.datasets import DISTRIBUTIONS, SUITES
from diffor.datasets.splits import crossing_groups, split_samples

IMAGES = tuple(miniatures_images.WRITERS)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = miniatures_images.write_image_sets(tmp_path_factory.mktemp("data"))
    for write in (write_criteo, write_kuairand, write_kuairec, write_shoppers):
        write(folder / write.__name__)
    return folder


def test_the_table_names_the_twelve():
    assert [*SUITES["paper"]] == [*IMAGES, "kuairec", "kuairand", "criteo", "shoppers"]


@pytest.mark.parametrize("name", SUITES["paper"])
def test_every_set_is_read_and_split_from_one_folder(root, name, monkeypatch):
    dataset = DISTRIBUTIONS[name]
    assert set(dataset.metrics) <= set(METRICS)
    assert all((dataset.description, dataset.source, dataset.size, dataset.licence, dataset.obtain))
    assert pickle.loads(pickle.dumps(dataset)).name == name
    (samples, report), (train, test) = dataset.survey(root), dataset.split(root, 1)
    assert len(samples.x) == len(samples.y) == len(samples)
    assert report.n_kept == len(samples) or name == "shoppers"  # who have several lines each
    assert all(len(values) == len(samples) for values in samples.side.values())
    assert np.isfinite(samples.y).all()
    assert samples.groups is None or samples.groups.dtype == np.int64
    if dataset.image_column:
        assert all(Path(path).is_absolute() and Path(path).is_file() for path in samples.x["path"])
        assert samples.x["path"].is_unique
    assert sorted([*train, *test]) == list(range(len(samples)))
    assert len(test) > 0
    assert dataset.bounds is None or dataset.bounds[0] <= samples.y.min() <= samples.y.max() <= dataset.bounds[1]
    if samples.groups is not None and name not in ("kuairec", "kuairand"):  # whose users come back in the test rows
        assert not set(samples.groups[train]) & set(samples.groups[test])
    assert [part.tolist() for part in dataset.split(root, 1)] == [train.tolist(), test.tolist()]
    assert crossing_groups(split_samples(samples, 0, "random"), samples.groups) == []
    monkeypatch.setenv("DIFFOR_DATA", str(root))
    assert dataset.read(None).x.equals(samples.x)
    monkeypatch.delenv("DIFFOR_DATA")
    with pytest.raises(
        ValueError, match=f"{name} is read from files, but got root=None; pass root, or set DIFFOR_DATA"
    ):
        dataset.read(None)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_an_empty_folder_says_how_to_get_the_data(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name} needs .*, but .* holds none") as caught:
        DISTRIBUTIONS[name].read(tmp_path)
    assert str(caught.value).endswith(DISTRIBUTIONS[name].obtain)
    report = DISTRIBUTIONS[name].check(tmp_path)
    assert report.errors == [str(caught.value)]
    assert report.is_absent


@pytest.mark.parametrize("name", IMAGES)
def test_a_check_counts_rows_and_names_a_truncated_image(tmp_path, name):
    root = miniatures_images.WRITERS[name](tmp_path)
    broken = Path(DISTRIBUTIONS[name].read(root).x["path"].iloc[-1])
    broken.write_bytes(broken.read_bytes()[:-200])
    checked = DISTRIBUTIONS[name].check(root)
    assert sum(f"rows of {name}, but got " in message for message in checked.errors + checked.warnings) == 1
    assert [message for message in checked.errors if "must be a whole image" in message] == [checked.errors[-1]]
    assert checked.errors[-1].startswith(f"{broken} must be a whole image, but ")
    assert "; fetch the file again, or delete it" in checked.errors[-1]
