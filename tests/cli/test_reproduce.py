"""``diffor reproduce``: every experiment from the command line to its page, in the quick size."""

import json
import re
import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")

from diffor.cli.main import main
from diffor.errors import UserError

BANNER = "smoke test: too short to mean anything"


def reproduce(*words, folder):
    command = [sys.executable, "-m", "diffor", "reproduce", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)


def numbers_of(folder, stem):
    return json.loads((folder / "reproduction" / f"{stem}.json").read_text())


def assert_draws_no_conclusion(printed, numbers, folder, stem):
    """Every heading and caption of a page, and the whole of it, says that it means nothing; there are no sentences."""
    assert numbers["smoke_test"] == BANNER
    page = (folder / f"{stem}.html").read_text()
    told = BANNER.capitalize()
    assert f"<title>DiffoR: {stem} ({BANNER})</title>" in page
    headings = re.findall(r"<h[23][^>]*>(.*?)</h[23]>", page)
    assert headings
    assert all(heading.endswith(f"({BANNER})") for heading in headings)
    captions = re.findall(r"<(?:fig)?caption[^>]*>(.*?)</(?:fig)?caption>", page, re.DOTALL)
    assert {re.sub(r"<.*?>", "", caption).strip() for caption in captions} == {f"{told}."}
    assert {text.split(".")[0] for text in re.findall(r"<p>(.*?)</p>", page)} == {told}
    assert printed.startswith(told)
    assert printed.rstrip().splitlines()[-1].startswith(told)
    for word in ("paper prints", "Bold", "best", "clear"):
        assert word not in printed


def test_a_grid_from_its_run_file_to_its_page(tmp_path):
    """The others have other run files, which tests/paper/experiments reads."""
    done = reproduce("heads", "--quick", "--jobs", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "8 cells: 0 are in" in done.stderr
    assert "failed" not in done.stderr
    found, folder = numbers_of(tmp_path, "heads-quick"), tmp_path / "reproduction"
    assert found["experiment"] == "heads"
    assert found["command"] == "diffor reproduce heads --quick --jobs 2"
    assert_draws_no_conclusion(done.stdout, found, folder, "heads-quick")
    assert len(found["contrasts"]) > 0
    lines = [json.loads(line) for line in (folder / "heads-quick.jsonl").read_text().splitlines()]
    assert {line["smoke_test"] for line in lines} == {BANNER}
    assert {line["peer"] for line in lines} == {"constant", "diffor-paper"}
    assert not {"width", "objective"} & {key for line in lines for key in line["settings"]}  # the real model
    page = (folder / "heads-quick.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "<svg" in page
    again = reproduce("heads", "--quick", "--force", folder=tmp_path)  # nothing is run a second time
    assert "8 are in" in again.stderr
    assert again.stdout == done.stdout


@pytest.mark.parametrize("name", ["latent", "paradigms"])
def test_a_study_to_its_page(name, tmp_path):
    done = reproduce(name, "--quick", "--seed", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = numbers_of(tmp_path, f"{name}-quick")
    assert found["experiment"] == name
    assert name != "latent" or found["trained"] != found["untrained"]
    assert_draws_no_conclusion(done.stdout, found, tmp_path / "reproduction", f"{name}-quick")
    assert len(done.stdout.splitlines()) > 8
    assert (tmp_path / "reproduction" / f"{name}-quick.html").read_text().count("<svg") >= 2


def test_tables_run_what_is_found_and_say_what_is_not(tmp_path):
    pytest.importorskip("PIL")
    pytest.importorskip("pyarrow")
    import miniatures_images
    import miniatures_tables

    miniatures_images.write_utkface(tmp_path / "data")
    miniatures_tables.write_kuairec(tmp_path / "data")
    done = reproduce("tables", "--quick", "--root", "data", "--jobs", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not found, and left out: fgnet, morph, cacd\n" in done.stderr
    assert "not found, and left out: criteo, shoppers\n" in done.stderr
    found = numbers_of(tmp_path, "tables-quick")
    assert set(found["kuairec"]["ours"]) == {"constant", "diffor-paper", "method:d2co", "method:cwm"}
    assert found["utkface"]["published"]["DiffoR"]["mae"]["printed"]
    assert "utkface: ours and published" in done.stdout
    assert_draws_no_conclusion(done.stdout, found, tmp_path / "reproduction", "tables-quick")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tables"], "tables needs at least one of its data sets, but none is found, and --root is not given; see"),
        (["tables", "--root", "."], "but none is found below .; see diffor datasets"),
        (["tables", "--root", "nowhere"], "--root must be an existing folder, but nowhere is none; check the path"),
        (["tabels"], "invalid choice: 'tabels'"),
        (["ablation", "--out", "file"], "--out must be a folder, but file is a file; name another"),
        (["ablation", "--quick", "--out", "old"], "must not exist yet, but it does; choose another or pass --force"),
        (["ablation", "--quick", "--size", "small"], "not allowed with argument --quick"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(here, capsys, arguments, message):
    (here / "file").write_text("mine")
    (here / "old").mkdir()
    (here / "old" / "ablation-quick.html").write_text("mine")
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
    found = sorted(str(path.relative_to(here)) for path in here.rglob("*"))
    assert found == ["file", "old", "old/ablation-quick.html"]
    assert (here / "old" / "ablation-quick.html").read_text() == "mine"


def test_an_experiment_whose_cells_all_fail_says_so(here, capsys):
    from diffor.cli import reproduce as command
    from diffor.paper.experiments.grids import GRIDS

    lines = [
        {"dataset": "diabetes", "method": "base", "seed": seed, "status": "failed", "error": "ValueError: no"}
        for seed in (0, 1)
    ]
    cells = {(line["dataset"], line["method"], line["seed"]): line for line in lines}
    with pytest.raises(UserError, match="heads needs at least one cell that ends well, but all 2 failed"):
        command._read(GRIDS["heads"], cells)
    assert "2 of 2 cells failed, the first with: ValueError: no" in capsys.readouterr().err
