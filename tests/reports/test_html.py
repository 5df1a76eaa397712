import os
import stat
from html.parser import HTMLParser

import pytest

from diffor.reports.html import FILES, Figure, Heading, Paragraph, Table, as_text, html_page, number, write_page

VOID = {"meta", "br", "link", "img", "input", "hr"}
NASTY = "<script>alert(\"1\")</script> & 'x'"
SVG = '<svg viewBox="0 0 1 1"><defs><path id="a"/></defs><use href="#a" clip-path="url(#a)"/></svg>'


class Page(HTMLParser):
    """Elements of a page in order, with their texts; complains about tags that do not match."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": "", "inside": [e["tag"] for e in self.open]}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": "", "inside": []})

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag):
        return [element for element in self.elements if element["tag"] == tag]

    def texts(self, tag):
        return [element["text"] for element in self.all(tag)]


@pytest.fixture
def sections():
    table = Table("Scores", ("Model", "MAE", "RMSE"), (("A", "1.0", "2.0"), ("B", "3.0", "4.0")), frozenset({(1, 2)}))
    return [Heading("Part"), Heading("Sub", 3), Paragraph("Words."), table, Figure(SVG, "a dot", "A dot."), table]


def test_sections_appear_in_order(sections):
    page = Page(html_page("Title", sections))
    kinds = [e["tag"] for e in page.elements if e["tag"] in ("h1", "h2", "h3", "p", "table", "figure")]
    assert kinds == ["h1", "h2", "h3", "p", "table", "figure", "table"]
    assert page.texts("title") == page.texts("h1") == ["Title"]
    assert page.texts("p") == ["Words."]


def test_tables_have_caption_header_and_cells(sections):
    page = Page(html_page("Title", sections[:4]))
    assert page.texts("caption") == ["Scores"]
    headers = page.all("th")
    assert [(e["text"], e["attrs"]["scope"]) for e in headers] == [
        ("Model", "col"),
        ("MAE", "col"),
        ("RMSE", "col"),
        ("A", "row"),
        ("B", "row"),
    ]
    assert page.texts("td") == ["1.0", "2.0", "3.0", "4.0"]
    assert page.texts("strong") == ["4.0"]
    assert len(page.all("tr")) == 3


def test_figures_are_named_for_those_who_cannot_see_them(sections):
    page = Page(html_page("Title", sections))
    (svg,) = page.all("svg")
    assert svg["attrs"]["role"] == "img"
    assert svg["attrs"]["aria-label"] == "a dot"
    assert svg["inside"][-1] == "figure"
    assert page.texts("figcaption") == ["A dot."]


def test_ids_of_figures_do_not_collide():
    page = Page(html_page("Title", [Figure(SVG, "one"), Figure(SVG, "two")]))
    ids = [e["attrs"]["id"] for e in page.elements if "id" in e["attrs"]]
    assert len(ids) == len(set(ids)) == 2
    for use, name in zip(page.all("use"), ids, strict=True):
        assert use["attrs"]["href"] == f"#{name}"
        assert use["attrs"]["clip-path"] == f"url(#{name})"
    assert not page.all("figcaption")


def test_all_text_is_escaped():
    table = Table(NASTY, (NASTY, "b"), ((NASTY, NASTY),), frozenset({(0, 1)}))
    page = Page(html_page(NASTY, [Heading(NASTY), Paragraph(NASTY), table, Figure(SVG, NASTY, NASTY)]))
    assert not page.all("script")
    for tag in ("title", "h1", "h2", "p", "caption", "td", "figcaption", "strong"):
        assert page.texts(tag) == [NASTY]
    assert page.texts("th") == [NASTY, "b", NASTY]
    assert page.all("svg")[0]["attrs"]["aria-label"] == NASTY
    assert page.all("div")[0]["attrs"]["aria-label"] == NASTY


def test_the_page_needs_nothing_beside_itself(sections):
    html = html_page("Title", sections)
    page = Page(html)
    assert not page.all("script")
    assert not page.all("link")
    for element in page.elements:
        for name in ("src", "href", "xlink:href", "srcset"):
            assert (element["attrs"].get(name) or "#").startswith("#")
    assert "http:" not in html
    assert "https:" not in html
    assert "@import" not in html
    assert html.count("url(") == html.count("url(#")


def test_the_page_is_made_for_phones_and_for_the_dark(sections):
    html = html_page("Title", sections)
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert page.all("html")[0]["attrs"]["lang"] == "en"
    assert page.all("meta")[0]["attrs"] == {"charset": "utf-8"}
    assert "width=device-width" in page.all("meta")[1]["attrs"]["content"]
    assert "prefers-color-scheme: dark" in html
    assert "color-scheme: light dark" in html


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="row 1 has 1"):
        Table("", ("a", "b"), (("1", "2"), ("1",)))


def test_a_heading_of_another_level_is_refused():
    with pytest.raises(ValueError, match="level must be 2 or 3"):
        Heading("x", 1)


@pytest.mark.parametrize("svg", ["", "<img src='x'>", "<?xml version='1.0'?><svg/>"])
def test_a_figure_that_is_no_svg_is_refused(svg):
    with pytest.raises(ValueError, match="one <svg> element"):
        Figure(svg, "x")


def test_pages_are_written_whole_with_their_folder(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_page(path, "<p>ä</p>")
    write_page(str(path), "<p>ö</p>")
    assert path.read_text(encoding="utf-8") == "<p>ö</p>"
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of posix")
def test_others_may_read_the_page(tmp_path):
    write_page(tmp_path / "page.html", "")
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o644


def test_sortable_tables_bring_one_script_that_needs_nothing():
    table = Table("Scores", ("Model", "MAE"), (("A", "1.0"),), sortable=True)
    html = html_page("Title", [table, table])
    page = Page(html)
    assert len(page.all("script")) == 1
    assert page.all("script")[0]["attrs"] == {}
    assert [("data-sortable" in element["attrs"]) for element in page.all("table")] == [True, True]
    assert not page.all("button")  # the script makes them, so that none is dead without it
    assert "aria-sort" in page.texts("script")[0]
    assert "http" not in html
    assert [element["text"] for element in page.all("th")][:2] == ["Model", "MAE"]


def test_tables_of_words_are_marked():
    page = Page(html_page("Title", [Table("Errors", ("a", "b"), (("1", "2"),), is_text=True)]))
    assert page.all("table")[0]["attrs"] == {"class": "words"}


def test_the_script_cannot_be_closed_from_inside():
    assert "</" not in (FILES / "sort.js").read_text()


def test_records_become_tables_and_text():
    table = Table.of([{"method": "a", "mean_error": 0.5, "rows": 1200, "path": [1]}, {"method": "b", "mean_error": None,
                      "rows": 3, "path": []}], "Lower is better.")  # fmt: skip
    assert table.header == ("method", "mean error", "rows")
    text = as_text([Heading("Errors"), table, Figure(SVG, "a dot")])
    assert text.splitlines()[2:] == [
        "method  mean error   rows",
        "a            0.500  1,200",
        "b                -      3",
        "Lower is better.",
    ]
    assert [number(value) for value in (123.4, 9999.9, 1e-9, 2.5e15, float("inf"))] == [
        "123", "10,000", "1.00e-09", "2.50e+15", "inf",
    ]  # fmt: skip
