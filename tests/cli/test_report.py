"""``diffor report``: from lines to a page and to JSON."""

import json
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

pytest.importorskip("matplotlib")

from diffor.cli.main import main

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def a_line(dataset, method, seed, crps):
    scores = {"crps": crps, "mae": crps, "rmse": crps, "interval_score_90": crps, "srcc": 0.5, "coverage_90": 0.9}
    return {
        "dataset": dataset, "method": method, "seed": seed, "task": "value", "status": "ok", "error": None,
        "metrics": scores, "calibration": {"levels": [0.5, 0.9], "coverage": [0.5, 0.9]}, "fit_seconds": 2.0,
        "predict_seconds": 0.5, "n_test": 1000, "n_train": 5000, "is_ours": method == "diffor",
    }  # fmt: skip


@pytest.fixture
def results(here):
    lines = [a_line(f"set{d}", m, s, 1.0 + p) for d in range(3) for p, m in enumerate(("diffor", "b", "c"))
             for s in (0, 1)]  # fmt: skip
    (here / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:9]))
    (here / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[9:]) + '{"dataset": "se')
    return here


def test_a_page_of_several_files(results, capsys):
    (results / "page.html").write_text("an old one")
    words = ["report", "one.jsonl", "two.jsonl", "--out", "page.html", "--title", "A <test>"]
    assert main([*words, "--force"]) == 0
    assert "18 cells; the page is page.html" in capsys.readouterr().err
    html = (results / "page.html").read_text()
    assert "<h1>A &lt;test&gt;</h1>" in html
    assert "1 damaged line(s)" in html
    assert html.count("<table") == html.count("</table>") >= 8
    assert not any(forbidden in html for forbidden in ("http:", "https:", "src=", "@import", "<link"))
    assert html.count("<script>") == 1

    class Checked(HTMLParser):
        opened = ()

        def handle_starttag(self, tag, attrs):
            if tag != "meta":
                self.opened = (*self.opened, tag)

        def handle_endtag(self, tag):
            assert self.opened[-1] == tag
            self.opened = self.opened[:-1]

    parser = Checked()
    parser.feed(html)
    assert parser.opened == ()


def test_the_numbers_as_json(results, capsys):
    assert main(["report", "one.jsonl", "two.jsonl", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert list(numbers) == ["value"]
    methods = numbers["value"]["crps"]["methods"]
    assert {name: entry["mean_rank"] for name, entry in methods.items()} == {"diffor": 1.0, "b": 2.0, "c": 3.0}
    assert methods["b"]["relative"] == 2.0
    assert not (results / "page.html").exists()


def test_methods_can_be_chosen_and_left_out(results, capsys):
    files = ["report", "one.jsonl", "two.jsonl", "--json"]
    assert main([*files, "--methods", "b,c"]) == 0
    assert list(json.loads(capsys.readouterr().out)["value"]["crps"]["methods"]) == ["b", "c"]
    assert main([*files, "--without", "b"]) == 0
    assert list(json.loads(capsys.readouterr().out)["value"]["crps"]["methods"]) == ["diffor", "c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one.jsonl"], "a report must go somewhere, but neither --out nor --json is given"),
        (["none.jsonl", "--json"], "results must be files that diffor bench wrote, but none.jsonl is none"),
        (["empty.jsonl", "--json"], "must hold at least one finished cell, but empty.jsonl"),
        (["one.jsonl", "--json", "--without", "diffr"], "but 'diffr' is not (did you mean 'diffor'?)"),
        (["one.jsonl", "--out", "old.html"], "old.html"),
        (["one.jsonl", "--jsno"], "report has no option --jsno (did you mean '--json'?)"),
    ],
)
def test_wrong_use_is_one_line(results, refused, arguments, message):
    (results / "empty.jsonl").write_text("\n")
    (results / "old.html").write_text("old")
    assert message in refused("report", *arguments)
    assert (results / "old.html").read_text() == "old"


CLICKS = """<script>
const table = document.querySelector("table[data-sortable]"), header = table.tHead.rows[0].cells[1];
const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent).join(" ");
const seen = [];
for (let click = 0; click < 4; click++) {
  seen.push(names() + " " + header.getAttribute("aria-sort"));
  header.querySelector("button").click();
}
document.body.append(Object.assign(document.createElement("pre"), { textContent: seen.join("; ") }));
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium to click in")
def test_headers_sort_their_table_in_a_browser(tmp_path):
    from diffor.reports.html import Table, html_page

    rows = (("b", "10"), ("a", "9.5 ± 0.1"), ("d", "-"), ("c", "1,000"))
    page = html_page("Sorting", [Table("Scores", ("name", "score"), rows, sortable=True)])
    (tmp_path / "page.html").write_text(page.replace("</body>", CLICKS))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--dump-dom", (tmp_path / "page.html").as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    seen = done.stdout.split("<pre>")[1].split("</pre>")[0].split("; ")
    assert seen == ["b a d c null", "a b c d ascending", "c b a d descending", "b a d c null"]
