"""The page on other tools: every block of it runs, and what it says of them holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for package in ("tensorboard", "huggingface_hub", "optuna", "skpro"):
    pytest.importorskip(package, reason=f"{package} is an optional extra")

from diffor.metrics import crps_samples  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    for place, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        exec(compile(block, f"ecosystem.md, block {place}", "exec"), names)
    assert list(Path("runs").glob("fast-*/events*"))
    np.testing.assert_array_equal(names["again"].predict(names["X_test"]), names["model"].predict(names["X_test"]))
    assert "| mae | " in Path("published/README.md").read_text()
    assert names["found"].best_score <= names["found"].default_score
    assert len(names["found"].trials) == 4
    proba = names["regressor"].estimator_.predict_distribution(names["X_test"])
    assert names["score"] == pytest.approx(crps_samples(names["y_test"], proba.samples))


def test_the_page_names_what_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    project = (PAGE.parents[1] / "pyproject.toml").read_text()
    for extra in ("tensorboard", "mlflow", "hub", "skpro", "tune"):
        assert f"\n{extra} = [" in project
        assert f"`{extra}`" in text or f"[{extra}]" in text
