"""Run files of the experiments: they can be read in every size, and say what the paper's tables ask."""

import json
from dataclasses import replace
from pathlib import Path

import miniatures_images
import pytest

from diffor import DiffoRRegressor
from diffor.bench.leaderboard import latest_cells
from diffor.bench.peers.methods import own_settings
from diffor.bench.run import read_lines
from diffor.estimators.settings import resolve_settings
from diffor.methods.diffor import FlowMatching, IncrementDiffusion, MLPDenoiser, ScaleHeadsDenoiser
from diffor.paper.experiments.ablation import FULL, VARIANTS
from diffor.paper.experiments.grids import GRIDS

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
PAPER_SIZE = {"early_stopping": False, "evaluate_every": 1_000_000}
IMAGES = {"encoder": "resnet50", "encoder_weights": "resnet50.pth", "image_settings": {"augment": False}, "epochs": 100}


def made_of(settings):
    """The paper's method with the settings of a run file, all of which the estimator or the method must know."""
    given = own_settings("diffor-paper", dict(settings))
    DiffoRRegressor("paper", **given)
    return IncrementDiffusion(4, **resolve_settings("paper", given).method_settings)


@pytest.mark.parametrize("size", [None, "small", "quick"])
@pytest.mark.parametrize("name", GRIDS)
def test_run_files_can_be_read_in_every_size(name, size):
    plans = GRIDS[name].plans(size)
    assert len(plans) == (4 if name == "tables" else 1)
    for plan in plans:
        plan = replace(plan, limits={})  # which people there are is known where the files are
        assert plan.cells()
        for method in plan.methods:
            if method.peer == "diffor-paper":
                made_of(method.settings)  # refuses what is wrong


@pytest.mark.parametrize("name", ["ablation", "heads", "times"])
@pytest.mark.parametrize("size", [None, "small", "quick"])
def test_every_size_has_seeds_enough_for_an_interval(name, size):
    (plan,) = GRIDS[name].plans(size)
    assert len(plan.seeds) >= (5 if size is None else 2)


def test_the_ablation_is_rows_a_to_f_on_the_papers_set():
    (plan,) = GRIDS["ablation"].plans()
    assert plan.datasets == ("icaa17k",)
    settings = {method.name: dict(method.settings) for method in plan.methods}
    assert list(settings) == ["constant", FULL, *VARIANTS]
    assert settings[FULL] == IMAGES | PAPER_SIZE
    made = {name: made_of(given) for name, given in settings.items() if name != "constant"}
    counts = {name: method.n_increments for name, method in made.items()}
    assert counts == {name: 1 if name in ("d-without-mia", "f-without-both") else 8 for name in made}
    mlps = [name for name, method in made.items() if isinstance(method.denoiser, MLPDenoiser)]
    flows = [name for name, method in made.items() if isinstance(method.process, FlowMatching)]
    assert (mlps, flows) == (["c-mlp"], ["b-flow-matching"])
    assert [name for name, given in settings.items() if given.get("spacing")] == ["e-without-ddp", "f-without-both"]
    assert set(made["e-without-ddp"].aligned_times) == {1}
    for size in ("small", "quick"):
        (other,) = GRIDS["ablation"].plans(size)
        assert [method.name for method in other.methods] == list(settings)
        assert "resnet50" not in str(other.methods)


def test_heads_go_from_0_to_12_and_none_is_row_d():
    (plan,) = GRIDS["heads"].plans()
    made = {method.name: made_of(method.settings) for method in plan.methods if method.name != "constant"}
    assert {name: method.n_increments for name, method in made.items()} == {
        "base": 8, "heads-0": 1, "heads-2": 2, "heads-4": 4, "heads-6": 6, "heads-10": 10, "heads-12": 12,
    }  # fmt: skip
    for name, method in made.items():
        assert isinstance(method.denoiser, ScaleHeadsDenoiser)
        assert len(method.denoiser.layers[0].attention.query) == method.n_increments, name
    (ablation,) = GRIDS["ablation"].plans()
    rows = {method.name: dict(method.settings) for method in (*ablation.methods, *plan.methods)}
    assert rows["heads-0"] == rows["d-without-mia"]
    assert plan.datasets == ablation.datasets


@pytest.mark.parametrize("name", ["tables", "ablation", "heads"])
def test_the_size_paper_is_the_paper(name):
    for plan in GRIDS[name].plans():
        for method in plan.methods:
            settings = dict(method.settings)
            if method.name == "constant" or (method.name == "diffor" and "encoder" not in settings):
                continue
            assert {key: settings[key] for key in PAPER_SIZE} == PAPER_SIZE, method.name
            if "icaa17k" in plan.datasets or "utkface" in plan.datasets:
                assert {key: settings[key] for key in IMAGES} == IMAGES, method.name
                resolved = resolve_settings("paper", {key: settings[key] for key in IMAGES})
                assert (resolved.batch_size, resolved.learning_rate) == (128, 5e-4)
                assert resolved.backbone_learning_rate is None
            else:
                resolved = resolve_settings("paper", {"epochs": settings["epochs"]})
                assert (settings["epochs"], resolved.batch_size, resolved.learning_rate) == (50, 1024, 5e-4)


def test_ages_have_one_class_for_each_year_and_fgnet_leaves_everybody_out(tmp_path):
    for size, seeds in ((None, 6), ("small", 10), ("quick", 2)):
        (plan,) = [plan for plan in GRIDS["tables"].plans(size) if "fgnet" in plan.dataset_names()]
        plan = replace(plan, root=str(miniatures_images.write_fgnet(tmp_path)))
        assert len(plan.seeds_of("fgnet")) == seeds
        by_year = {method.name for method in plan.methods if method.settings.get("n_bins") == "units"}
        classes = ("or-cnn", "dldl", "sord", "mean-variance", "unimodal", "cross-entropy")
        assert by_year == (set() if size == "quick" else {f"method:{name}" for name in classes})


def test_the_times_have_the_papers_chain_to_the_letter():
    (plan,) = GRIDS["times"].plans()
    (method,) = [made_of(method.settings) for method in plan.methods if method.name == "all-times"]
    assert (method.chain_times, method.eta) == (tuple(range(1000, 0, -1)), 1.0)


def test_tables_run_every_method_of_the_paper_that_is_implemented():
    from diffor.bench.published import read_published

    for plan in GRIDS["tables"].plans():
        ours = {name.removeprefix("method:") for name in (method.name for method in plan.methods)}
        figures = read_published().all
        tables = {one.table for one in figures if one.column.dataset in plan.datasets}
        wanted = {name for one in figures if one.table in tables for name in one.ours}
        assert wanted <= ours
        assert "kuairec" not in plan.datasets or "value-squared" in ours  # VR


@pytest.mark.parametrize("name", ["ablation", "heads", "times"])
def test_committed_lines_still_give_the_committed_numbers(name):
    pytest.importorskip("matplotlib")
    lines, _ = read_lines(RESULTS / f"{name}-small.jsonl")
    cells = {place: line for place, line in latest_cells(lines).items() if line["status"] == "ok"}
    names = ("dataset", "method", "metric")
    found = {tuple(one[key] for key in names): one for one in GRIDS[name].read(cells).numbers["contrasts"]}
    committed = json.loads((RESULTS / f"{name}-small.json").read_text())["contrasts"]
    assert len(committed) > 60
    for one in committed:
        assert found[tuple(one[key] for key in names)] == pytest.approx(one)
