"""``diffor evaluate --report``: real files, and a page that is written whole or not at all."""

import json
import re
import subprocess
import sys

import pytest
from command_examples import FAST

pytest.importorskip("matplotlib")

from diffor.cli.main import main
from diffor.reports.html import number


@pytest.fixture(scope="module")
def point(home, tmp_path_factory):
    """A model that predicts points, beside those of distributions."""
    folder = tmp_path_factory.mktemp("point") / "point"
    words = ["--target", "price", "--drop", "id", "quality", "stars", "weight", "--method", "value-squared"]
    assert main(["fit", str(home / "rows.csv"), *words, *FAST, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Intervals of tests may be rough."""
    monkeypatch.setattr("diffor.reports.evaluation.scores.with_intervals.__defaults__", (20,))


@pytest.mark.parametrize("name", ["price", "quality", "point"])
def test_a_page_is_written_beside_the_scores(home, point, here, capsys, name):
    arguments = ["evaluate", str(point if name == "point" else home / name), str(home / "rows.csv"), "--json"]
    assert main(arguments) == 0
    alone = capsys.readouterr()
    assert main([*arguments, "--report", "page.html"]) == 0
    shown = capsys.readouterr()
    assert shown.out == alone.out  # the page changes nothing about the scores
    assert shown.err == "the page is page.html\n"
    page = (here / "page.html").read_text()
    assert f"<title>Model report: {name}</title>" in page
    for metric in json.loads(shown.out)["metrics"].values():
        if metric["model"] is not None:
            assert re.search(rf"<td>(<strong>)?{re.escape(number(metric['model']))}<", page)
    assert [path.name for path in here.iterdir()] == ["page.html"]


def test_pages_of_chunks_are_pages_of_the_whole(home, here, monkeypatch):
    arguments = ["evaluate", str(home / "quality"), str(home / "rows.csv"), "--report"]
    assert main([*arguments, "whole.html"]) == 0
    monkeypatch.setattr("diffor.files.tables.CHUNK_ROWS", 96)
    assert main([*arguments, "chunks.html"]) == 0
    assert (here / "whole.html").read_text() == (here / "chunks.html").read_text()


def test_long_tables_are_shown_in_part(home, point, here, monkeypatch):
    monkeypatch.setattr("diffor.reports.evaluation.evaluation.picked_rows.__defaults__", (70,))
    monkeypatch.setattr("diffor.files.tables.CHUNK_ROWS", 50)
    assert main(["evaluate", str(point), str(home / "rows.csv"), "--report", "page.html"]) == 0
    page = (here / "page.html").read_text()
    assert "The scores are those of all 240 rows. Figures and slices look at 70 of them, picked at random." in page
    assert "true values of 70 rows" in page
    assert "Mean absolute error in 10 ranges" in page


def test_an_existing_page_is_replaced_only_if_asked(home, point, here, refused):
    (here / "page.html").write_text("mine")
    arguments = ["evaluate", str(point), str(home / "rows.csv"), "--report", "page.html"]
    assert "page.html must not exist yet, but it does; choose another or pass --force to" in refused(*arguments)
    assert (here / "page.html").read_text() == "mine"
    assert main([*arguments, "--force"]) == 0
    assert "Model report" in (here / "page.html").read_text()


WRONG = {
    "HOME/price HOME/rows.csv --report absent/page.html": "absent/page.html must lie in an existing folder, but absent",
    "HOME/price HOME/rows.csv --report page.txt": "--report must be a page whose name ends in .html, but got page.txt",
    "HOME/price HOME/rows.csv --report HOME/rows.csv --force": "--report must be a page whose name ends in .html",
    "HOME/price HOME/rows.csv --report folder.html --force": "folder.html must be a file, but something else has this",
    "HOME/price HOME/rows.csv --force": "--force is for --report, but no page is asked for; add --report PAGE.html",
    "HOME/absent HOME/rows.csv --report page.html": "absent",
    "HOME/price HOME/rows.csv --target prize --report page.html": "'prize' (did you mean 'price'?)",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_use_leaves_files_as_they_were(home, here, refused, line):
    (here / "folder.html").mkdir()
    before = (home / "rows.csv").read_bytes()
    assert WRONG[line] in refused("evaluate", *line.replace("HOME", str(home)).split())
    assert [path.name for path in here.iterdir()] == ["folder.html"]
    assert (home / "rows.csv").read_bytes() == before


def test_a_page_that_cannot_be_written_at_the_end_is_said_in_one_line(home, point, here, monkeypatch, refused):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("diffor.reports.html.write_page", full)
    assert refused("evaluate", point, home / "rows.csv", "--report", "page.html") == (
        "diffor: error: the output cannot be written: No space left on device; make room, allow it, or choose "
        "another place\n"
    )


def test_without_matplotlib_the_message_names_the_extra(home, here):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from diffor.cli.main import main\n"
        f"sys.exit(main(['evaluate', {str(home / 'price')!r}, {str(home / 'rows.csv')!r}, '--report', 'page.html']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == ("diffor: error: figures need matplotlib: install it with pip install 'diffor[plots]'\n")
    assert list(here.iterdir()) == []
