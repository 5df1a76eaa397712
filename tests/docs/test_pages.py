"""Every Python block of the pages runs, in the order of its page, as the site runs it."""

import doctest
import importlib
from pathlib import Path

import pytest
from running import missing_package, python_blocks, run_block, run_page

ROOT = Path(__file__).parents[2]
OWN_TESTS = {"ecosystem.md", "extending.md", "paper.md"}
"""Pages whose blocks need more than a folder, or are doctests; test files of their names run them."""
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if python_blocks(path.read_text(encoding="utf-8")) and path.name not in OWN_TESTS
)
THEIRS = {"ngboost", "tabpfn", "mapie"}
"""Packages of other tools that the development environment does not have."""


def test_there_are_pages_for_every_journey():
    journeys = ("values", "grades", "images", "watch_time", "lifetime_value", "production", "scale", "research")
    tools = ("lightgbm", "ngboost", "tabpfn", "coral", "mord", "mapie")
    wanted = {*(f"docs/guides/{name}.md" for name in journeys), *(f"docs/migration/{name}.md" for name in tools)}
    assert wanted | {"docs/quickstart.md", "docs/gallery.md", "docs/method.md", "README.md"} <= set(PAGES)


@pytest.mark.parametrize("place", PAGES)
def test_the_blocks_of_a_page_run(place, few_steps):
    for package in ("matplotlib", "PIL", "pyarrow", "lightgbm", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is an optional extra")
    text = (ROOT / place).read_text(encoding="utf-8")
    shown = run_page(text, place)
    missing = {one.missing for one in shown if one.missing is not None}
    assert missing <= THEIRS
    assert len(shown) == len(python_blocks(text))


@pytest.mark.parametrize("place", [path for path in PAGES if "migration" in path])
def test_a_page_from_another_tool_shows_both_sides(place):
    blocks = python_blocks((ROOT / place).read_text(encoding="utf-8"))
    assert any(block.startswith("# pip install") for block in blocks)
    assert any("from diffor import DiffoR" in block for block in blocks)


def test_the_examples_of_what_runs_pages_hold():
    pytest.importorskip("griffe", reason="the site is an optional extra: docs")
    for name in ("running", "runtime_docs"):
        found = doctest.testmod(importlib.import_module(name))
        assert found.attempted > 0
        assert found.failed == 0


def test_a_block_shows_what_it_printed_and_its_last_value():
    names = {"a": 2}
    shown = run_block("print('one')\nb = a + 1\nb", names, "here")
    assert (shown.text, shown.pictures, names["b"]) == ("one\n3", [], 3)
    assert run_block("# pip install no-such-package\nimport nothing", {}, "here").missing == "no-such-package"
    assert missing_package("# pip install pytest\n") is None


def test_a_figure_is_shown_with_words_for_those_who_do_not_see_it():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    axes.set(xlabel="size", ylabel="price <all>")
    (picture,) = run_block("axes", {"axes": axes}, "here").pictures
    assert picture.startswith('<figure role="img" aria-label="price &lt;all&gt; over size"><svg')
