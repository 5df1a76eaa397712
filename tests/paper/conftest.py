"""The paradigms in the quick size, measured once for all tests that read them."""

from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def quick_paradigms(tmp_path_factory):
    """What a quick run finds, what it says, and the file of its lines."""
    pytest.importorskip("matplotlib")
    from diffor.paper.experiments.paradigms import run_paradigms

    logged, lines = [], tmp_path_factory.mktemp("paradigms") / "paradigms.jsonl"
    found = run_paradigms("quick", log=logged.append, lines=lines)
    return SimpleNamespace(found=found, logged=logged, lines=lines, **found.numbers)
