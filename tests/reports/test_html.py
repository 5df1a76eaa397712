from html.parser import HTMLParser

import pytest

from diffor.reports.html import Figure, Heading, Paragraph, Table, as_text, html_page, number, write_page

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


def test_sections_appear_in_order_with_names_for_those_who_cannot_see_them(sections):
    html = html_page("Title", sections)
    page = Page(html)
    kinds = [e["tag"] for e in page.elements if e["tag"] in ("h1", "h2", "h3", "p", "table", "figure")]
    assert kinds == ["h1", "h2", "h3", "p", "table", "figure", "table"]
    assert page.texts("title") == page.texts("h1") == ["Title"]
    assert (page.texts("p"), page.texts("caption"), page.texts("figcaption")) == (
        ["Words."], ["Scores", "Scores"], ["A dot."],
    )  # fmt: skip
    headers = [(e["text"], e["attrs"]["scope"]) for e in page.all("th")][:5]
    assert headers == [("Model", "col"), ("MAE", "col"), ("RMSE", "col"), ("A", "row"), ("B", "row")]
    assert (page.texts("td")[:4], page.texts("strong")[:1]) == (["1.0", "2.0", "3.0", "4.0"], ["4.0"])
    (svg,) = page.all("svg")
    assert (svg["attrs"]["role"], svg["attrs"]["aria-label"], svg["inside"][-1]) == ("img", "a dot", "figure")


def test_the_page_needs_nothing_beside_itself_and_suits_phones_and_the_dark(sections):
    html = html_page("Title", sections)
    page = Page(html)
    assert not page.all("script") + page.all("link")
    for element in page.elements:
        for name in ("src", "href", "xlink:href", "srcset"):
            assert (element["attrs"].get(name) or "#").startswith("#")
    assert not any(words in html for words in ("http:", "https:", "@import"))
    assert html.count("url(") == html.count("url(#")
    assert html.startswith("<!DOCTYPE html>")
    assert page.all("html")[0]["attrs"]["lang"] == "en"
    assert page.all("meta")[0]["attrs"] == {"charset": "utf-8"}
    assert "width=device-width" in page.all("meta")[1]["attrs"]["content"]
    assert "prefers-color-scheme: dark" in html


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table("", ("a", "b"), (("1", "2"), ("1",))), "row 1 has 1"),
        (lambda: Heading("x", 1), "level must be 2 or 3"),
        (lambda: Figure("<img src='x'>", "x"), "one <svg> element"),
    ],
)
def test_parts_that_are_wrong_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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


def test_pages_are_written_whole_with_their_folder(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_page(path, "<p>ä</p>")
    write_page(str(path), "<p>ö</p>")
    assert path.read_text(encoding="utf-8") == "<p>ö</p>"
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


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
    words = Page(html_page("Title", [Table("Errors", ("a", "b"), (("1", "2"),), is_text=True, fits=True)]))
    assert words.all("table")[0]["attrs"] == {"class": "words fits"}


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
