"""What the tests of the large tables share: miniatures of all four below one root."""

import shutil

import pytest
from miniatures_tables import write_criteo, write_kuairand, write_kuairec, write_shoppers

from diffor.datasets import DISTRIBUTIONS


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """The four large tables below one root, with their caches filled."""
    root = tmp_path_factory.mktemp("shipped")
    for write in (write_kuairec, write_kuairand, write_criteo):
        write(root)
    write_shoppers(root / "kaggle")
    for name in ("kuairec", "kuairand", "criteo", "shoppers"):
        DISTRIBUTIONS[name].survey(root)
    return root


@pytest.fixture
def root(shipped, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(shipped, tmp_path / "root")
