"""The figures of the paper: the committed file against the paper and against this package."""

import importlib
import pkgutil
import re
from decimal import Decimal
from operator import attrgetter

import pytest

import diffor.methods.baselines
from diffor.bench.published import PUBLISHED_FILE, read_published
from diffor.datasets import DISTRIBUTIONS, SUITES
from diffor.encoders.images.aesthetics import AESTHETIC_ENCODERS
from diffor.errors import UserError
from diffor.files.toml_files import read_toml
from diffor.methods import METHODS
from diffor.metrics import METRICS

FIGURES = read_published().all
# Counted by hand in the paper: methods and columns of each table.
SIZES = {
    "aesthetics": (8, 16), "age": (8, 8), "watch-time": (10, 4), "lifetime-value": (9, 4), "ablation": (6, 4),
    "aesthetics-tad66k-ava": (17, 8), "aesthetics-icaa17k-spaq": (19, 8),
}  # fmt: skip


def figure_of(dataset, metric, method):
    return next(one for one in read_published().figures(dataset, metric, variants=True) if one.method == method)


# The committed file.


def test_all_tables_are_there_in_full():
    found = {(one.table, one.method, one.column) for one in FIGURES}
    assert len(found) == len(FIGURES) == sum(rows * columns for rows, columns in SIZES.values())  # no cell is empty
    for table, (rows, columns) in SIZES.items():
        own = [one for one in FIGURES if one.table == table]
        assert (len({one.method for one in own}), len({one.column for one in own})) == (rows, columns)


def test_methods_are_run_or_say_why_they_are_quoted():
    names = set(METHODS)
    for module in pkgutil.iter_modules(diffor.methods.baselines.__path__):
        content = vars(importlib.import_module(f"diffor.methods.baselines.{module.name}"))
        names.update(*(table for key, table in content.items() if key.endswith("_METHODS")))
    for one in FIGURES:
        assert bool(one.ours) != bool(one.why_quoted), one.method
        assert one.kind in (("method", "variant") if one.ours else ("method", "architecture")), one.method
        assert set(one.ours) <= names, one.method


@pytest.mark.parametrize(
    ("table", "method", "values"),
    [
        ("age", "OR-CNN", "4.40 63.67 5.09 83.80 2.83 61.97 4.01 73.41"),
        ("watch-time", "TPM", "3.4584 0.5819 22.5950 0.6303"),
        ("lifetime-value", "DiffoR", "12.533 0.3066 66.522 0.557"),
        ("ablation", "DiffoR without both", "0.606 0.763 0.653 0.642"),
        ("aesthetics-icaa17k-spaq", "MUSIQ", "0.6740 0.7059 0.5632 0.5504 1.0427 0.7308 0.6925 0.6401"),
    ],
)
def test_rows_are_those_of_the_paper_digit_by_digit(table, method, values):
    assert [one.printed for one in FIGURES if (one.table, one.method) == (table, method)] == values.split()


def test_the_main_table_rounds_the_appendix():
    key = "method", "column.dataset", "column.metric"
    main = {attrgetter(*key)(one): one.printed for one in FIGURES if one.table == "aesthetics"}
    longer = [one for one in FIGURES if one.table.startswith("aesthetics-") and attrgetter(*key)(one) in main]
    assert len(longer) == len(main)
    differing = [
        one for one in longer if abs(Decimal(main[attrgetter(*key)(one)]) - Decimal(one.printed)) > Decimal("0.0005")
    ]
    assert [attrgetter(*key)(one) for one in differing] == [("TANet", "icaa17k", "lcc")]  # has a caveat


def test_columns_are_data_sets_and_metrics_of_this_package():
    columns = {one.column for one in FIGURES}
    assert {column.dataset for column in columns} == set(SUITES["paper"])
    for column in columns:
        assert column.metric in DISTRIBUTIONS[column.dataset].metrics
        assert METRICS[column.metric].greater_is_better == (column.direction == "higher")


def test_architectures_name_the_encoder_that_is_built_like_them():
    named = {}
    for one in (one for one in FIGURES if one.kind == "architecture"):
        *methods, named[one.method] = re.findall(r"`([\w-]+)`", one.why_quoted)
        assert set(methods) <= set(METHODS)
        assert "weights" in one.why_quoted
    assert sorted(named.values()) == sorted(AESTHETIC_ENCODERS)


def test_caveats_point_at_cells():
    for caveat in read_toml(PUBLISHED_FILE, "the figures", UserError)["caveat"]:
        for table in caveat["tables"]:
            own = [one for one in FIGURES if one.table == table and caveat["text"] in one.caveats]
            rows, columns = {one.method for one in own}, {f"{one.column.dataset} {one.column.metric}" for one in own}
            assert rows == set(caveat.get("rows", rows))
            assert columns == set(caveat.get("columns", columns))
            sizes = [len(caveat.get(name, range(size))) for name, size in zip(("rows", "columns"), SIZES[table],
                                                                             strict=True)]  # fmt: skip
            assert len(own) == sizes[0] * sizes[1] > 0


@pytest.mark.parametrize(("dataset", "constant"), [("ava", 0.578), ("tad66k", 1.204)])
def test_errors_above_a_constant_guess_are_marked(dataset, constant):
    for figure in read_published().figures(dataset, "mae"):
        marked = any("constant guess" in text for text in figure.caveats)
        assert marked == (figure.value > constant), figure.method


def test_copied_figures_are_marked():
    assert any("quoted from there" in text for text in figure_of("utkface", "mae", "SORD").caveats)
    assert figure_of("utkface", "mae", "GoR").caveats == ()
    figures = read_published().figures("criteo", "mae")
    assert {one.method for one in figures if "OptDist" in "".join(one.caveats)} == {"ZILN", "OptDist"}


# Figures.


def test_figures_are_in_our_units():
    figure = figure_of("utkface", "cs", "OR-CNN")
    assert (figure.value, figure.printed, figure.column.unit) == (0.6367, "63.67", "percent")
    figure = figure_of("utkface", "mae", "OR-CNN")
    assert (figure.value, figure.printed, figure.column.unit) == (4.4, "4.40", "years")
    assert figure.ours == ("or-cnn",)


def test_each_method_comes_once_from_the_longer_table_and_variants_when_asked_for():
    methods = [figure.method for figure in read_published().figures("icaa17k", "mae")]
    assert len(methods) == len(set(methods)) == 19
    gor = figure_of("icaa17k", "mae", "GoR")
    assert (gor.printed, gor.table) == ("0.5842", "aesthetics-icaa17k-spaq")
    more = [figure.method for figure in read_published().figures("icaa17k", "mae", variants=True)]
    variants = [one.method for one in FIGURES if (one.kind, one.column.metric) == ("variant", "mae")]
    assert more == [*methods, *variants]
    assert len(variants) > 3
    assert read_published().figures("diabetes", "mae") == []
