"""Tables of our figures beside the paper's: units, seeds, footnotes."""

import pytest

from diffor.bench.leaderboard import latest_cells
from diffor.bench.paper_tables import paper_numbers, paper_sections, paper_tables
from diffor.reports.html import Heading, Paragraph, Table


def a_line(dataset, method, seed, status="ok", **scores):
    images = {"encoder": "efficientnet-lite0", "side": 160, "pooling": "mean+max", "weights": None}
    return {"dataset": dataset, "method": method, "seed": seed, "status": status, "task": "value", "metrics": scores,
            "n_train": 3600 + seed, "n_test": 500, "images": images if dataset == "utkface" else None}  # fmt: skip


@pytest.fixture
def cells():
    return latest_cells([
        a_line("utkface", "method:or-cnn", 0, mae=7.0, cs=0.5),
        a_line("utkface", "method:or-cnn", 1, mae=8.0, cs=0.6),
        a_line("utkface", "diffor", 0, mae=6.5, cs=0.55),
        a_line("utkface", "card", 0, status="failed"),
        a_line("spaq", "diffor", 0, mae=12.5, srcc=0.4),
        a_line("diabetes", "diffor", 0, mae=40.0),
    ])  # fmt: skip


def rows_of(cells, dataset, methods=None):
    sections = paper_sections(paper_tables(cells, methods))
    (table,) = [part for part in sections if isinstance(part, Table) and part.caption.startswith(dataset)]
    return table, {row[0]: row[1:] for row in table.rows}


def test_only_data_sets_of_the_paper_have_tables(cells):
    assert [table.dataset for table in paper_tables(cells)] == ["utkface", "spaq"]
    others = {place: line for place, line in cells.items() if place[0] == "diabetes"}
    assert paper_sections(paper_tables(others)) == []
    assert paper_numbers(paper_tables(others)) == {}


def test_ours_are_means_over_seeds_in_the_units_of_the_paper(cells):
    table, rows = rows_of(cells, "utkface")
    assert table.header == ("method", "source", "mae (years, lower is better)", "cs (percent, higher is better)")
    assert rows["method:or-cnn"] == ("ours", "7.5 ± 0.71", "55 ± 7.1")
    assert rows["diffor"] == ("ours", "6.5", "55")
    assert "card" not in rows
    assert "over 2 seed(s), 3,600 to 3,601 rows to learn from, 500 to test on" in table.caption
    assert "Features: efficientnet-lite0 at 160 pixels." in table.caption


def test_published_rows_are_labelled_and_name_what_implements_them_here(cells):
    _, rows = rows_of(cells, "utkface")
    assert rows["OR-CNN (here method:or-cnn)"] == ("published", "4.40 [a]", "63.67")
    assert rows["DiffoR (here diffor)"][0] == "published"
    assert rows["GoR"][0] == "published"


def test_each_letter_leads_to_its_caveat_below_the_table(cells):
    sections = paper_sections(paper_tables(cells))
    start = next(i for i, part in enumerate(sections) if isinstance(part, Table) and part.caption.startswith("utkface"))
    notes = []
    for part in sections[start + 1 :]:
        if isinstance(part, Heading):
            break
        notes.append(part)
    used = {mark for row in sections[start].rows for cell in row if "[" in cell
            for mark in cell.split("[")[1].rstrip("]").split(", ")}  # fmt: skip
    assert used == {"a", "b"}
    assert all(isinstance(note, Paragraph) for note in notes)
    assert [note.text[:4] for note in notes] == ["[a] ", "[b] "]
    assert "Not stated in the paper" in notes[1].text


def test_points_of_spaq_are_compared_on_one_scale(cells):
    _, rows = rows_of(cells, "spaq")
    assert rows["diffor"][1:] == ("1.25", "-", "-", "0.4")
    published = paper_numbers(paper_tables(cells))["spaq"]["published"]["DiffoR"]["mae"]
    assert published["value"] == pytest.approx(10 * float(published["printed"]))


def test_methods_can_be_chosen(cells):
    _, rows = rows_of(cells, "utkface", ["diffor"])
    assert "method:or-cnn" not in rows
    assert rows["OR-CNN"][0] == "published"
    assert [table.dataset for table in paper_tables(cells, ["method:or-cnn"])] == ["utkface"]
