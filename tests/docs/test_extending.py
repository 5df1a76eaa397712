"""The page on adding a method: every block of it runs, and what it promises holds."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import diffor
from diffor.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
NAME = "value-laplace"


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def laplace(blocks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's first block as a module; its method is in the table until the test ends."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "laplace.py").write_text(blocks[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "laplace", raising=False)
    module = importlib.import_module("laplace")
    monkeypatch.setitem(diffor.METHODS, NAME, module.LaplaceValue)
    yield module
    sys.modules.pop("laplace", None)


def run_blocks(blocks: list[str], *places: int) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for place in places:
        exec(compile(blocks[place], f"extending.md, block {place}", "exec"), names)
    return names


def test_the_page_adds_a_method_that_fits_predicts_and_is_saved(laplace: ModuleType, blocks: list[str]) -> None:
    names = run_blocks(blocks, 1, 2)
    y = names["y"][-50:].to_numpy()
    answers, interval, model = names["answers"], names["interval"], names["model"]
    np.testing.assert_array_equal(names["again"], answers)
    median = model.predict(names["X"][-50:], "median")
    # Medians of the members on average, and the median of all: not the same, but not far apart.
    assert np.abs(answers - median).mean() < 0.05 * (interval[:, 1] - interval[:, 0]).mean()
    assert np.abs(answers - y).mean() < 0.8 * np.abs(np.median(names["y"][:-50]) - y).mean()
    assert 0.7 < ((interval[:, 0] <= y) & (y <= interval[:, 1])).mean() <= 1
    assert names["shares"].sum(axis=1) == pytest.approx(1)
    assert isinstance(model.model_.members[0].method, laplace.LaplaceValue)


def test_the_distribution_is_that_of_laplace(laplace: ModuleType) -> None:
    distribution = laplace.ClippedLaplace(torch.tensor([0.4]), torch.tensor([0.1]))
    draws = torch.distributions.Laplace(0.4, 0.1)
    values = torch.linspace(0.01, 0.99, 50)[None]
    torch.testing.assert_close(distribution.cdf(values), draws.cdf(values))
    levels = torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0])
    assert distribution.quantile(levels)[0].tolist() == pytest.approx([0.0, 0.23906, 0.4, 0.56094, 1.0], abs=1e-4)
    torch.manual_seed(0)
    wide = laplace.ClippedLaplace(torch.tensor([0.9]), torch.tensor([0.5]))
    sampled = torch.distributions.Laplace(0.9, 0.5).sample((400_000,)).clamp(0, 1).mean()
    assert wide.mean.item() == pytest.approx(sampled.item(), abs=2e-3)


def test_the_pages_own_tests_pass(laplace: ModuleType, blocks: list[str]) -> None:
    names = run_blocks(blocks, 1, 3, 4)
    tests = [name for name in names if name.startswith("test_")]
    assert tests == ["test_laplace_does_what_every_method_must", "test_laplace_loss_by_hand"]
    for task in ("value", "grades"):
        names[tests[0]](task)
    names[tests[1]]()


def test_a_column_beside_the_features(laplace: ModuleType, blocks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    limited = run_blocks(blocks, 1, 3)["LimitedLaplace"]
    monkeypatch.setitem(diffor.METHODS, "limited", limited)
    X = pd.DataFrame({"size": np.linspace(0, 1, 60)})
    y, duration = 10 * X["size"].to_numpy(), np.full(60, 4.0)
    model = diffor.OrdinalRegressor("limited", preset="fast", max_steps=20, random_state=0, verbose=0)
    with pytest.raises(ValueError, match="method 'limited' needs the column 'duration', but it is not given"):
        model.fit(X, y)
    answers = model.fit(X, y, duration=duration).predict(X, duration=duration)
    assert answers.max() == pytest.approx(4.0, rel=1e-5)
    assert model.predict(X, duration=10 * duration).max() > 4.1


def test_the_command_line_knows_it(laplace: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if NAME in line)
    assert line.split()[:4] == [NAME, "distribution", "median", "standard"]
    rows = pd.DataFrame({"size": np.linspace(0, 1, 60)})
    rows.assign(price=10 * rows["size"]).to_csv("train.csv", index=False)
    assert main(["fit", "train.csv", "--target", "price", "--method", NAME, "--preset", "fast", "--max-steps", "10",
                 "--quiet", "--out", "model"]) == 0  # fmt: skip
    assert main(["predict", "model", "train.csv", "--out", "out.csv", "--coverage", "0.9"]) == 0
    assert pd.read_csv("out.csv").columns.tolist() == ["prediction", "low", "high"]


def test_the_figures_of_the_page(blocks: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    n_lines = sum(bool(line.strip()) for line in blocks[0].splitlines())
    assert ("Fifty-seven lines of class" in page, n_lines) == (True, 57)
    assert max(map(len, page.splitlines())) <= 120
    assert len(blocks) == 5


def test_the_table_is_left_as_it_was() -> None:
    assert NAME not in diffor.METHODS
