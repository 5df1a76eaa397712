"""What tests of pages share: the pages, what runs them, and training that takes a moment."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_build"))


@pytest.fixture
def few_steps(monkeypatch):
    """Every preset trains for a moment: pages run, their figures mean nothing."""
    from diffor.estimators import settings

    for name in settings.NAMES:
        preset = settings.PRESETS[name]
        less = {"kinds": preset.kinds[:1], "max_folds": 2, "prior": preset.prior[:1], "large_prior": None}
        quick = preset.but(max_steps=8, **less)
        monkeypatch.setitem(settings.PRESETS, name, quick)
    monkeypatch.setitem(settings.ENCODED, "max_steps", 8)
