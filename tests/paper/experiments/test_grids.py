"""Run files of the experiments: they can be read in every size, and say what the paper's tables ask."""

import pytest

from diffor import DiffoRRegressor
from diffor.bench.peers.methods import own_settings
from diffor.estimators.settings import resolve_settings
from diffor.methods.diffor import FlowMatching, IncrementDiffusion, MLPDenoiser
from diffor.paper.experiments.ablation import FULL, VARIANTS
from diffor.paper.experiments.grids import GRIDS


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
        assert plan.cells()
        for method in plan.methods:
            if method.peer == "diffor-paper":
                made_of(method.settings)  # refuses what is wrong


@pytest.mark.parametrize("name", ["ablation", "heads", "times"])
@pytest.mark.parametrize("size", [None, "small", "quick"])
def test_every_size_has_seeds_enough_for_an_interval(name, size):
    (plan,) = GRIDS[name].plans(size)
    assert len(plan.seeds) >= (5 if size is None else 2)


def test_the_ablation_is_rows_a_to_f_on_four_sets():
    (plan,) = GRIDS["ablation"].plans()
    assert plan.datasets == ("utkface", "wine-quality-red", "vlengagement", "cdnow")
    settings = {method.name: dict(method.settings) for method in plan.methods}
    assert list(settings) == ["constant", FULL, *VARIANTS]
    assert settings[FULL] == {}
    made = {name: made_of(given) for name, given in settings.items() if name != "constant"}
    counts = {name: method.n_increments for name, method in made.items()}
    assert counts == {name: 1 if name in ("d-without-mia", "f-without-both") else 8 for name in made}
    mlps = [name for name, method in made.items() if isinstance(method.denoiser, MLPDenoiser)]
    flows = [name for name, method in made.items() if isinstance(method.process, FlowMatching)]
    assert (mlps, flows) == (["c-mlp"], ["b-flow-matching"])
    assert [name for name, given in settings.items() if given.get("spacing")] == ["e-without-ddp", "f-without-both"]
    assert set(made["e-without-ddp"].aligned_times) == {1}


def test_heads_go_from_0_to_12():
    (plan,) = GRIDS["heads"].plans()
    names = {method.name for method in plan.methods} - {"constant"}
    counts = ("0", "2", "4", "6", "10", "12")
    assert names == {"base", *(f"{kind}-{count}" for kind in ("increments", "attention") for count in counts)}


def test_tables_run_every_method_of_the_paper_that_is_implemented():
    from diffor.bench.published import read_published

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
