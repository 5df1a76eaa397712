"""The list of the paper's statements: as many as it says, and whatever shows them exists."""

from __future__ import annotations

import re
from collections import Counter

from doc_names import ROOT

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


def test_every_statement_but_those_missing_has_a_test() -> None:
    for row in ROWS:
        assert "`tests/" in row[3] or row[2] == "missing", row


def test_a_statement_that_is_not_done_as_printed_says_why() -> None:
    for row in ROWS:
        assert row[4] or row[2] == "shown", row
