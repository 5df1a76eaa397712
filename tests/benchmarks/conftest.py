"""The scripts stand beside the package, so they are imported from their folder: ``serve``, ``scaling`` and so on."""

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"


def _fixture(name):
    @pytest.fixture(name=name)
    def script(monkeypatch):
        monkeypatch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module(name)

    return script


globals().update({f"_{path.stem}": _fixture(path.stem) for path in SCRIPTS.glob("*.py")})
