"""The quick size: it shows that everything runs, and everything it writes says that it shows nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from diffor.paper.experiments.contrasts import Findings
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table

BANNER = "smoke test: too short to mean anything"
"""What stands over, in and below every page of the quick size."""
SAID = f"{BANNER.capitalize()}."


def smoke_test(findings: Findings) -> Findings:
    """The findings without a conclusion: no sentences, nothing bold, and the banner at every heading and caption."""
    last = Paragraph(f"{SAID} Run another size for figures.")
    sections = [_plain(one) for one in findings.sections if not isinstance(one, Paragraph)]
    return Findings({"smoke_test": BANNER, **findings.numbers}, [last, *sections, last])


def _plain(section: Section) -> Section:
    if isinstance(section, Heading):
        return replace(section, text=f"{section.text} ({BANNER})")
    if isinstance(section, Table):
        return replace(section, caption=SAID, strong=frozenset())
    return replace(section, caption=SAID) if isinstance(section, Figure) else section


def marked(line: Mapping[str, Any]) -> dict[str, Any]:
    """A result line with the banner.

    >>> marked({"dataset": "diabetes"})
    {'smoke_test': 'smoke test: too short to mean anything', 'dataset': 'diabetes'}
    """
    return {"smoke_test": BANNER, **line}
