"""Run files: what they may say, and what is said about those that are wrong."""

import sys

import pytest

from diffor import datasets
from diffor.bench.peers import PEERS
from diffor.bench.plan import as_seeds, plan_from, read_run_file, suite_of, with_methods
from diffor.errors import UserError
from diffor.methods import METHODS

EXAMPLE = """
suites = ["synthetic"]
seeds = [3, 5]
root = "data"
out = "lines.jsonl"
n_samples = 50
valid_share = 0.2
max_train_rows = 1000
max_test_rows = 500
timeout_seconds = 60

[datasets]
names = ["diabetes"]

[datasets.synthetic-bimodal]
max_train_rows = 100

[methods]
names = ["lightgbm-quantile"]

[methods.coarse]
peer = "diffor-fast"
n_increments = 4

[methods.lightgbm-quantile.search]
num_leaves = [15, 31]

[tuning]
trials = 2
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(EXAMPLE)
    return read_run_file(path)


def test_all_that_a_file_may_say(plan):
    assert plan.seeds == (3, 5)
    assert (plan.root, plan.out, plan.n_samples, plan.valid_share) == ("data", "lines.jsonl", 50, 0.2)
    assert (plan.max_train_rows, plan.max_test_rows, plan.timeout_seconds, plan.trials) == (1000, 500, 60, 2)
    assert plan.dataset_names() == [*datasets.SUITES["synthetic"], "diabetes"]
    assert [method.name for method in plan.methods] == ["constant", "lightgbm-quantile", "coarse"]
    coarse = plan.methods[2]
    assert (coarse.peer, coarse.settings) == ("diffor-fast", {"n_increments": 4})


def test_cells_go_seed_by_seed(plan):
    cells = plan.cells()
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    half = len(cells) // 2
    assert [(c.dataset, c.method) for c in cells[:half]] == [(c.dataset, c.method) for c in cells[half:]]


def test_methods_are_skipped_where_they_cannot_do_the_task(plan):
    on_grades = {cell.method for cell in plan.cells() if cell.dataset == "synthetic-grades"}
    assert on_grades == {"constant", "coarse"}


def test_limits_of_a_data_set_go_first(plan):
    limits = {cell.dataset: (cell.max_train_rows, cell.max_test_rows) for cell in plan.cells()}
    assert limits["synthetic-bimodal"] == (100, 500)
    assert limits["diabetes"] == (1000, 500)


def test_only_methods_with_a_search_are_tuned(plan):
    tuned = {cell.method: (cell.trials, dict(cell.search)) for cell in plan.cells()}
    assert tuned["lightgbm-quantile"] == (2, {"num_leaves": [15, 31]})
    assert tuned["coarse"] == tuned["constant"] == (None, {})
    without = {"datasets": ["diabetes"], "methods": {"diffor": {"search": {"width": [1, 2]}}}}
    assert [cell.trials for cell in plan_from(without).cells()] == [None, None]


def test_the_constant_is_always_there_once():
    for methods in ([], ["constant"], ["diffor"], ["diffor", "constant", "diffor"]):
        names = [method.name for method in plan_from({"datasets": ["diabetes"], "methods": methods}).methods]
        assert names.count("constant") == 1
        assert len(names) == len(set(names))


def test_all_means_every_peer():
    plan = plan_from({"datasets": ["diabetes"], "methods": {"names": "all", "diffor": {"width": 8}}})
    assert {method.name for method in plan.methods} == set(PEERS)
    assert {method.name: method.settings for method in plan.methods}["diffor"] == {"width": 8}


def test_other_methods_keep_the_settings_of_the_file(plan):
    other = with_methods(plan, ["coarse", "diffor"])
    assert [method.name for method in other.methods] == ["constant", "coarse", "diffor"]
    assert other.methods[1].settings == {"n_increments": 4}


def test_a_pattern_holds_for_the_names_that_it_fits_and_later_ones_go_before():
    methods = {
        "names": ["diffor", "diffor-fast", "method:all"],
        "*": {"max_steps": 7, "width": 8},
        "diffor*": {"width": 16},
        "diffor-fast": {"max_steps": 9, "width": 16},
    }
    plan = plan_from({"datasets": ["diabetes"], "methods": methods})
    settings = {method.name: dict(method.settings) for method in plan.methods}
    assert len(settings) == len(METHODS) + 3
    assert [settings[name] for name in ("constant", "diffor", "diffor-fast", "method:corn")] == [
        {}, {"max_steps": 7, "width": 16}, {"max_steps": 9, "width": 16}, {"max_steps": 7, "width": 8},
    ]  # fmt: skip
    other = with_methods(plan, ["method:corn", "mdn", "diffor"])  # what is said of all holds for new ones
    assert [dict(method.settings) for method in other.methods] == [
        {}, {"max_steps": 7, "width": 8}, {"max_steps": 7, "width": 8}, {"max_steps": 7, "width": 16},
    ]  # fmt: skip


def test_quick_changes_what_its_table_says_and_settings_of_what_is_trained_here():
    content = {
        "datasets": ["diabetes", "movies"],
        "seeds": 5,
        "methods": {"names": ["diffor", "method:corn", "lightgbm-quantile"], "diffor": {"max_steps": 900, "width": 8}},
        "quick": {"datasets": ["diabetes"], "seeds": 2, "max_train_rows": 100, "settings": {"max_steps": 3}},
    }
    whole = plan_from(content)
    assert (whole.datasets, whole.seeds, whole.max_train_rows) == (("diabetes", "movies"), (0, 1, 2, 3, 4), None)
    assert whole.methods[1].settings == {"max_steps": 900, "width": 8}
    plan = plan_from(content, size="quick")
    assert (plan.datasets, plan.seeds, plan.max_train_rows) == (("diabetes",), (0, 1), 100)
    assert {method.name: dict(method.settings) for method in plan.methods} == {
        "constant": {},
        "diffor": {"max_steps": 3, "width": 8},
        "method:corn": {"max_steps": 3},
        "lightgbm-quantile": {},
    }


@pytest.mark.parametrize("size", ["quick", None])
def test_mistakes_about_sizes_are_named(size):
    wrong = {"datasets": ["diabetes"], "quick": {"seed": 2}}
    with pytest.raises(UserError, match=r"\[quick\] of the run file may hold .* 'seed' \(did you mean 'seeds'\?\)"):
        plan_from(wrong, size=size)
    with pytest.raises(UserError, match=r"the run file has no table \[small\]"):
        plan_from({"datasets": ["diabetes"]}, size="small")


def test_suites_of_data_sets():
    assert suite_of("diabetes") == "open"
    assert suite_of("no such set") is None


WRONG = [
    ({"dataset": ["diabetes"]}, "but got 'dataset' \\(did you mean 'datasets'\\?\\)"),
    ({"datasets": ["diabetis"]}, "data set must be one of .* but got 'diabetis' \\(did you mean 'diabetes'\\?\\)"),
    ({"suites": ["opem"]}, "suite must be one of .* but got 'opem' \\(did you mean 'open'\\?\\)"),
    ({"methods": ["difor"]}, "method must be one of .* but got 'difor' \\(did you mean 'diffor'\\?\\)"),
    ({"methods": ["no.module:X"]}, "must be importable, but No module named 'no'"),
    ({"methods": ["json:dumps"]}, "must be a Peer, but it is a function"),
    ({"methods": {"mine": {"peer": "difor"}}}, "but got 'difor'"),
    ({"methods": {"diffor": 3}}, "\\[methods.diffor\\] of .* must be a table, but got 3"),
    ({"methods": {"diffor": {"search": {"width": 3}}}}, "must list values .* but got width=3"),
    ({"methods": [3]}, "must be a list of names, but got \\[3\\]"),
    ({"datasets": {"diabetes": {"max_rows": 3}}}, "but got 'max_rows'"),
    (
        {"datasets": {"names": "diabetes", "diabetes": {"max_test_rows": 0}}},
        "max_test_rows must be .* but got 0",
    ),
    ({"seeds": 0}, "seeds must be .* but got 0"),
    ({"seeds": [0, -1]}, "seeds must be .* but got \\[0, -1\\]"),
    ({"n_samples": 1.5}, "n_samples must be a whole number from 1 on, but got 1.5"),
    ({"max_train_rows": 0}, "max_train_rows must be .*, but got 0"),
    ({"valid_share": 1}, "valid_share must be a share between 0 and 1.* but got 1"),
    ({"timeout_seconds": "long"}, "timeout_seconds must be a positive number, but got 'long'"),
    ({"root": 3}, "root must be a path in quotes, but got 3"),
    ({"tuning": {"trails": 3}}, "but got 'trails' \\(did you mean 'trials'\\?\\)"),
    ({"tuning": {"trials": 0}}, "trials must be .* but got 0"),
    ({"tuning": 3}, "must be a table, but got 3"),
    ({"datasets": []}, "must have data sets, but neither suites nor datasets"),
    (
        {"datasets": {"names": "diabetes", "diabetes": {"seeds": "all"}}},
        "leave each person out once, but diabetes has no",
    ),
    ({"datasets": {"names": "diabetes", "diabetes": {"seeds": 0}}}, "seeds must be a number of seeds or .* but got 0"),
    ({"images": "small"}, "\\[images\\] of a run must be a table, but got 'small'"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_what_is_wrong_is_named(content, message):
    with pytest.raises(UserError, match=message) as caught:
        plan_from({"datasets": ["diabetes"], **content})
    assert "\n" not in str(caught.value)


def test_seeds_are_a_number_or_a_list():
    assert as_seeds(3) == (0, 1, 2)
    assert as_seeds([7, 7, 1]) == (7, 1)
    with pytest.raises(UserError, match="but got True"):
        as_seeds(True)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"must be readable, but .*No such file"):
        read_run_file(tmp_path / "none.toml")
    (tmp_path / "run.toml").write_text("seeds = = 3")
    with pytest.raises(UserError, match=r"must be TOML, but .*line 1"):
        read_run_file(tmp_path / "run.toml")
    monkeypatch.setattr(sys, "version_info", (3, 10))
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(UserError, match=r'needs tomli on Python 3.10: pip install "diffor\[bench\]"'):
        read_run_file(tmp_path / "run.toml")


@pytest.mark.parametrize("name", ["development", "foundation", "quick"])
def test_the_run_files_of_the_project_are_right(name, pytestconfig):
    plan = read_run_file(pytestconfig.rootpath / "benchmarks" / "runs" / f"{name}.toml")
    methods = {cell.method for cell in plan.cells()}
    assert {"constant", "lightgbm-quantile", "diffor-fast"} <= methods
    if name == "foundation":
        assert {"catboost-quantile", "xgboost-quantile", "quantile-forest", "engression", "realmlp"} <= methods
        assert plan.dataset_names() == list(datasets.SUITES["foundation"])
        assert len(plan.seeds) == 5
    if name == "development":
        assert set(PEERS) - methods == {"diffor-paper"}
        assert len(plan.seeds) == 5
