"""The quick size draws no conclusion."""

import pytest

from diffor.paper.experiments.contrasts import Findings
from diffor.paper.experiments.smoke import BANNER, smoke_test
from diffor.reports.html import Figure, Heading, Paragraph, Table


@pytest.mark.parametrize("level", [2, 3])
def test_headings_and_captions_say_so_and_sentences_are_left_out(level):
    table = Table("ours is best", ("method", "mae"), (("ours", "1"),), frozenset({(0, 1)}))
    figure = Figure('<svg xmlns="http://www.w3.org/2000/svg"></svg>', "differences", "Clearly better.")
    sections = [Heading("Who leads", level), Paragraph("Ours leads."), table, figure]
    found = smoke_test(Findings({"contrasts": [1]}, sections))
    assert found.numbers == {"smoke_test": BANNER, "contrasts": [1]}
    first, heading, shown, drawn, last = found.sections
    assert first == last == Paragraph("Smoke test: too short to mean anything. Run another size for figures.")
    assert heading == Heading(f"Who leads ({BANNER})", level)
    assert shown == Table("Smoke test: too short to mean anything.", table.header, table.rows)
    assert drawn == Figure(figure.svg, "differences", "Smoke test: too short to mean anything.")
