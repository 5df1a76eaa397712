"""The eight image data sets as tables: every row keeps the contract, and all can share one folder."""

import pickle
from pathlib import Path

import miniatures_images as miniatures
import numpy as np
import pytest

from diffor import METRICS
from diffor.datasets.paper.image_sets import AESTHETICS, AGE, IMAGE_DISTRIBUTIONS
from diffor.datasets.splits import crossing_groups, split_samples

DATASETS = {dataset.name: dataset for dataset in (*AGE, *AESTHETICS)}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return miniatures.write_image_sets(tmp_path_factory.mktemp("images"))


def test_the_tables_name_the_same_eight():
    assert [*DATASETS] == [*IMAGE_DISTRIBUTIONS] == [*miniatures.WRITERS]


@pytest.mark.parametrize("name", DATASETS)
def test_every_row_keeps_the_contract(name):
    dataset, distribution = DATASETS[name], IMAGE_DISTRIBUTIONS[name]
    assert set(dataset.metrics) <= set(METRICS)
    assert dataset.task == "value"
    assert all((dataset.description, dataset.source, distribution.size, distribution.licence, distribution.obtain))
    assert pickle.loads(pickle.dumps(dataset)).split.keywords == dataset.split.keywords
    assert pickle.loads(pickle.dumps(distribution)).name == name


@pytest.mark.parametrize("name", DATASETS)
def test_every_set_is_read_and_split_from_one_folder(root, name):
    dataset = DATASETS[name]
    samples, (train, test) = dataset.read(root), dataset.split(root, 1)
    assert sorted([*train, *test]) == list(range(len(samples)))
    assert len(test) > 0
    assert dataset.bounds is None or dataset.bounds[0] <= samples.y.min() <= samples.y.max() <= dataset.bounds[1]
    assert samples.groups is None or not set(samples.groups[train]) & set(samples.groups[test])
    for index in range(3):
        assert [part.tolist() for part in dataset.split(root, index)] == [
            part.tolist() for part in dataset.split(root, index)
        ]
        assert crossing_groups(split_samples(samples, index, "random"), samples.groups) == []


@pytest.mark.parametrize("name", DATASETS)
def test_the_environment_names_the_root(root, name, monkeypatch):
    monkeypatch.setenv("DIFFOR_DATA", str(root))
    assert DATASETS[name].read(None).x.equals(DATASETS[name].read(root).x)
    monkeypatch.delenv("DIFFOR_DATA")
    with pytest.raises(
        ValueError, match=f"{name} is read from files, but got root=None; pass root, or set DIFFOR_DATA"
    ):
        DATASETS[name].read(None)


@pytest.mark.parametrize("name", DATASETS)
def test_an_empty_folder_says_how_to_get_the_data(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name} needs .*, but got ") as caught:
        DATASETS[name].read(tmp_path)
    assert str(caught.value).endswith(IMAGE_DISTRIBUTIONS[name].obtain)
    assert IMAGE_DISTRIBUTIONS[name].check(tmp_path).errors == [str(caught.value)]


@pytest.mark.parametrize("name", DATASETS)
def test_a_check_counts_rows_and_names_a_truncated_image(tmp_path, name):
    root = miniatures.WRITERS[name](tmp_path)
    broken = Path(DATASETS[name].read(root).x["path"].iloc[-1])
    broken.write_bytes(broken.read_bytes()[:-200])
    checked = IMAGE_DISTRIBUTIONS[name].check(root)
    counted = [message for message in checked.errors + checked.warnings if f"rows of {name}, but" in message]
    assert len(counted) == 1
    assert [message for message in checked.errors if "must be a whole image" in message] == [checked.errors[-1]]
    assert checked.errors[-1].startswith(f"{broken} must be a whole image, but got ")
    assert "; fetch the file again, or delete it" in checked.errors[-1]


def test_brightness_follows_the_target(root):
    from PIL import Image

    for dataset in DATASETS.values():
        samples = dataset.read(root)
        means = [np.asarray(Image.open(path)).mean() for path in samples.x["path"]]
        assert np.corrcoef(means, samples.y)[0, 1] > 0.95
