import pytest

from diffor.files.atomic import DataError
from diffor.files.locks import alone


def test_a_lock_is_for_one_at_a_time_and_comes_back(tmp_path):
    lock = tmp_path / ".lock"
    with alone(lock, "busy"), pytest.raises(DataError, match=r"^busy$"), alone(lock, "busy"):
        pytest.fail("two had it")
    with alone(lock, "busy"):
        pass


def test_a_lock_that_cannot_be_made_is_named(tmp_path):
    with (
        pytest.raises(DataError, match=r"\.lock cannot be written: No such file"),
        alone(tmp_path / "no" / ".lock", None),
    ):
        pytest.fail("there is no such folder")
