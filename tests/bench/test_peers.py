"""The table of peers, and our own among them."""

import subprocess
import sys

import pytest

from diffor.bench.peers import PEERS, find_peer


def test_peers_are_named_by_themselves_and_know_their_tasks():
    assert all(name == PEERS[name].name and set(PEERS[name].tasks) <= {"value", "grades"} for name in PEERS)


def test_importing_the_table_is_light():
    heavy = ("torch", "lightgbm", "sklearn")
    code = f"import sys, diffor.bench.peers; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['sklearn']")


def test_unknown_peers_are_named_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"but got 'difor' \(did you mean 'diffor'\?\)"):
        find_peer("difor")
    with pytest.raises(ValueError, match="must be importable, but No module named 'nowhere'"):
        find_peer("nowhere:PEER")
    with pytest.raises(ValueError, match=r"peers:VALUE must be a Peer, but it is a tuple"):
        find_peer("diffor.bench.peers:VALUE")
    with pytest.raises(KeyError):
        PEERS["difor"]
    assert "difor" not in PEERS
