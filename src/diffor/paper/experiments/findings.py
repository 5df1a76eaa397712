"""What an experiment answers with: sentences for the terminal, numbers for programs, sections for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diffor.reports.html import Section


@dataclass(frozen=True)
class Findings:
    """The same findings three times."""

    sentences: Sequence[str]
    numbers: dict[str, Any]
    """Plain lists, dicts, strings and finite numbers, ready for JSON."""
    sections: Sequence[Section]
