"""An explanation as a page: tables and figures of the same numbers, of values or without targets."""

import pytest

pytest.importorskip("matplotlib")

from diffor.reports.explanation import Contributions, Explanation, Importance, explanation_page, explanation_sections
from diffor.reports.html import Figure, Table


def made(crps=2.0, n_columns=2):
    importances = tuple(
        Importance(f"column {place}", None if crps is None else 1.5, 0.1, 3.0) for place in range(n_columns)
    )
    parts = Contributions([4], ["a", "b"], 10.0, 5.0, [13.0], [4.0], [[4.0, -1.0]], [[-1.5, 0.5]])
    return Explanation(100, 5, 0.9, "median", crps, 5.0, importances, (), parts)


def test_rows_say_what_their_columns_add():
    *_, table = explanation_sections(made(), has_figures=False)
    assert table.rows == (
        ("row 5", "median", "13.0", "10.0", "a +4.00, b -1.00"),
        ("row 5", "width", "4.00", "5.00", "a -1.50, b +0.500"),
    )
    *_, named = explanation_sections(made(), has_figures=False, names=["row 900"])
    assert named.rows[0][0] == "row 900"


def test_without_targets_there_is_no_error_to_show():
    sections = list(explanation_sections(made(crps=None)))
    (first, *_) = [section for section in sections if isinstance(section, Table)]
    assert first.header == ("Column", "Change of width")
    assert len([section for section in sections if isinstance(section, Figure)]) == 1


def test_the_page_is_one_file():
    page = explanation_page(made(n_columns=40), "model & more")
    assert "<title>What moves model &amp; more</title>" in page
    assert "Importance of 15 columns" in page
    assert page.count("column 39") == 1  # in the table; bars are those of the first
