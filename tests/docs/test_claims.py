"""The list of the paper's statements: as many as it says, and whatever shows them exists."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from doc_names import ROOT, find, test_exists

from diffor.cli.main import _make_parser

PAGE = ROOT / "docs" / "claims.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if re.match(r"\| \d+ \|", line)
]
STATES = ("shown", "partly", "differs", "missing")


def test_all_162_are_there_once_and_counted() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 163))
    assert all(len(row) == 5 for row in ROWS)
    counted = Counter(row[2] for row in ROWS)
    assert set(counted) <= set(STATES)
    for state in STATES:
        assert f"| {state} | {counted[state]} |" in TEXT


def test_what_shows_a_statement_exists() -> None:
    named = [re.findall(r"`(tests/[^`]+)`", row[3]) for row in ROWS]
    for row, tests in zip(ROWS, named, strict=True):
        assert tests or row[2] == "missing", row
        for one in tests:
            assert test_exists(one) or (ROOT / one).is_dir(), one


def test_a_statement_that_is_not_done_as_printed_says_why() -> None:
    for row in ROWS:
        assert row[4] or row[2] == "shown", row


def test_names_and_commands_exist() -> None:
    for name in re.findall(r"`(diffor\.[\w.]+)`", TEXT):
        assert find(name) is not None
    commands = [shlex.split(text)[1:] for text in re.findall(r"`(diffor [^`]+)`", TEXT)]
    parser, _ = _make_parser()
    assert len(commands) > 3
    for words in commands:
        assert parser.parse_args(words).command == words[0]


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ("tests/docs/test_claims.py::test_names_and_commands_exist", True),
        ("tests/docs/test_claims.py::test_no_such_thing", False),
        ("tests/docs/test_nothing.py", False),
    ],
)
def test_a_test_that_is_gone_is_found_out(named: str, there: bool) -> None:
    assert test_exists(named) is there


def test_links_lead_somewhere() -> None:
    assert all((PAGE.parent / Path(link)).exists() for link in re.findall(r"\]\(([\w./]+)\)", TEXT))
