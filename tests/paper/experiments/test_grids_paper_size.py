"""``diffor reproduce tables --size paper`` end to end on miniatures of all twelve sets: one epoch, a small network."""

import json
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

import miniatures_images
import miniatures_tables

from diffor.bench.cell import run_cell
from diffor.cli.main import main
from diffor.datasets import SUITES
from diffor.paper.experiments.grids import GRIDS, Grid
from diffor.paper.experiments.options import Options


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = miniatures_images.write_image_sets(tmp_path_factory.mktemp("data"))
    for write in (miniatures_tables.write_kuairec, miniatures_tables.write_kuairand, miniatures_tables.write_criteo):
        write(folder)
    miniatures_tables.write_shoppers(folder / "shoppers")
    return folder


def test_one_command_runs_the_papers_model_on_all_twelve_sets(root, tmp_path, monkeypatch, capsys):
    plans = Grid.plans  # with few samples of each row, which take most of the time
    monkeypatch.setattr(Grid, "plans", lambda *given: [replace(plan, n_samples=8) for plan in plans(*given)])
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "tables", "--size", "paper", "--root", str(root), "--methods", "diffor-paper", "--epochs",
             "1", "--encoder", "small", "--seeds", "1"]  # fmt: skip
    assert main(words) == 0
    said = capsys.readouterr()
    assert "failed" not in said.err
    lines = [json.loads(line) for line in (tmp_path / "reproduction" / "tables.jsonl").read_text().splitlines()]
    assert {line["status"] for line in lines} == {"ok"}
    counts = Counter(line["dataset"] for line in lines if line["method"] == "diffor-paper")
    assert counts == {name: 6 if name == "fgnet" else 1 for name in SUITES["paper"]}  # each person is left out once
    for line in lines:
        assert line["validation"] == "protocol"
        if line["method"] == "diffor-paper":
            batch = 128 if line["settings"].get("encoder") else 1024
            assert line["facts"]["steps"] == -(-line["n_train"] // min(batch, line["n_train"])) == 1
            assert line["facts"]["stopped"] == "finished"
    found = json.loads((tmp_path / "reproduction" / "tables.json").read_text())
    assert set(SUITES["paper"]) <= found.keys()  # all of fgnet's people, so no title says otherwise
    assert found["fgnet"]["published"]["DiffoR"]["mae"]["printed"] == "4.29"
    assert "over the photos of 6 people, each left out once" in " ".join(said.out.split())


@pytest.mark.parametrize("name", ["utkface", "icaa17k", "kuairand", "shoppers"])
def test_every_method_of_a_domain_runs_in_the_size_paper(root, name):
    """One epoch of each on one set of its domain; small pictures, so that this takes seconds."""
    (plan,) = [plan for plan in Options(seeds=1, epochs=1, encoder="small").apply(GRIDS["tables"].plans())
               if name in plan.datasets]  # fmt: skip
    cells = replace(plan, datasets=(name,), n_samples=4, root=str(root)).cells()
    assert len(cells) == len(plan.methods)
    for cell in cells:
        small = {"image_settings": {"augment": False, "side": 16}} if "encoder" in cell.settings else {}
        own = {"max_steps": 1, "prior": None} if cell.method == "diffor" else {}
        line = run_cell(replace(cell, settings={**cell.settings, **small, **own}), str(root))
        assert line["metrics"]["mae"] >= 0, cell.method
        if cell.method.startswith("method:"):
            assert line["facts"]["steps"] == 1, cell.method
