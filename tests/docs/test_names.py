"""What pages name is there: things of the package, tests, commands and scripts."""

from __future__ import annotations

import re
import shlex

import pytest
from doc_names import ROOT, find, test_exists

from diffor.cli.main import _make_parser

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("place", PAGES)
def test_what_a_page_names_exists(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    for name in set(re.findall(r"`(diffor\.(?!service|socket)[\w.]+)`", text)):
        assert find(name) is not None
    for name in set(re.findall(r"`(tests/[\w/.:]+)`", text)):
        assert test_exists(name) or (ROOT / name).is_dir(), name
    for script in re.findall(r"(benchmarks/[\w/]+\.(?:py|toml))", text):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("name", ["claims", "reproduction"])
def test_commands_in_sentences_can_be_typed(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    commands = [
        shlex.split(one) for one in re.findall(r"`diffor ((?:reproduce|bench|datasets|diagnose)\b[^`]*)`", text)
    ]
    assert len(commands) > 6
    for words in commands:
        assert _make_parser()[0].parse_args(words).command == words[0]


def test_what_is_gone_is_found_out() -> None:
    with pytest.raises(AttributeError, match="no_such_function"):
        find("diffor.methods.diffor.increments.no_such_function")
    assert test_exists("tests/docs/test_names.py::test_what_is_gone_is_found_out")
    assert not test_exists("tests/docs/test_names.py::test_no_such_thing")
    assert not test_exists("tests/docs/test_nothing.py")
