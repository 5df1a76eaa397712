"""Run files of the experiments: they can be read in every size, and say what the paper's tables ask."""

from dataclasses import fields

import pytest

from diffor.experiments.ablation import FULL, VARIANTS
from diffor.experiments.grids import FOLDER, GRIDS
from diffor.presets import Settings, resolve_settings


@pytest.mark.parametrize("size", [None, "small", "quick"])
@pytest.mark.parametrize("name", GRIDS)
def test_run_files_can_be_read_in_every_size(name, size):
    plans = GRIDS[name].plans(size)
    assert len(plans) == (4 if name == "tables" else 1)
    for plan in plans:
        assert plan.cells()
        for method in plan.methods:
            if method.peer == "diffor-paper":
                assert set(method.settings) <= {field.name for field in fields(Settings)} | {"preset"}
                resolve_settings(method.settings.get("preset", "paper"), dict(method.settings))  # refuses what is wrong


@pytest.mark.parametrize("name", ["ablation", "heads", "times"])
@pytest.mark.parametrize("size", [None, "small", "quick"])
def test_every_size_has_seeds_enough_for_an_interval(name, size):
    (plan,) = GRIDS[name].plans(size)
    assert len(plan.seeds) >= (5 if size is None else 2)


def test_the_benchmarks_folder_shows_the_same_files(pytestconfig):
    runs = pytestconfig.rootpath / "benchmarks" / "runs"
    for path in FOLDER.glob("*.toml"):
        assert (runs / path.name).resolve() == path.resolve()


def test_the_ablation_is_rows_a_to_f_on_four_sets():
    (plan,) = GRIDS["ablation"].plans()
    assert plan.datasets == ("utkface", "wine-quality-red", "vlengagement", "cdnow")
    settings = {method.name: dict(method.settings) for method in plan.methods}
    assert list(settings) == ["constant", FULL, *VARIANTS]
    assert settings[FULL] == {}
    resolved = {name: resolve_settings("paper", given) for name, given in settings.items() if name != "constant"}
    assert (resolved[FULL].n_increments, resolved[FULL].denoiser, resolved[FULL].spacing) == (
        8,
        "transformer",
        "linear",
    )
    assert resolved["b-flow-matching"].process == "flow_matching"
    assert resolved["c-mlp"].denoiser == "mlp"
    assert resolved["d-without-mia"].n_increments == resolved["f-without-both"].n_increments == 1
    assert resolved["e-without-ddp"].spacing == resolved["f-without-both"].spacing == "shared"


def test_heads_go_from_0_to_12():
    (plan,) = GRIDS["heads"].plans()
    names = {method.name for method in plan.methods} - {"constant"}
    counts = ("0", "2", "4", "6", "10", "12")
    assert names == {"base", *(f"{kind}-{count}" for kind in ("increments", "attention") for count in counts)}


def test_tables_run_every_method_of_the_paper_that_is_implemented():
    from diffor.published import read_published

    for plan in GRIDS["tables"].plans():
        ours = {name.removeprefix("method:") for name in (method.name for method in plan.methods)}
        wanted = {
            name
            for table in read_published().tables
            if {column.dataset for column in table.columns} & set(plan.datasets)
            for row in table.rows
            for name in row.ours
        }
        assert wanted <= ours
