"""The figures of the paper: the committed file against the paper and against this package, and broken files."""

import importlib
import pkgutil
import re
from decimal import Decimal
from pathlib import Path

import pytest

import diffor.methods.baselines
from diffor.bench import published
from diffor.bench.published import PUBLISHED_FILE, read_published
from diffor.datasets import DISTRIBUTIONS
from diffor.encoders.images.aesthetics import AESTHETIC_ENCODERS
from diffor.methods import METHODS
from diffor.metrics import METRICS

# Counted by hand in the paper: methods and columns of each table.
SIZES = {
    "aesthetics": (8, 16),
    "age": (8, 8),
    "watch-time": (10, 4),
    "lifetime-value": (9, 4),
    "ablation": (6, 4),
    "aesthetics-tad66k-ava": (17, 8),
    "aesthetics-icaa17k-spaq": (19, 8),
}


@pytest.fixture(scope="module")
def paper():
    return read_published()


def table_named(paper, name):
    return next(table for table in paper.tables if table.name == name)


def row_named(paper, table, method):
    return next(row for row in table_named(paper, table).rows if row.method == method)


def figure_of(paper, dataset, metric, method):
    return next(figure for figure in paper.figures(dataset, metric, variants=True) if figure.method == method)


# The committed file.


def test_all_tables_are_there_in_full(paper):
    assert {table.name: (len(table.rows), len(table.columns)) for table in paper.tables} == SIZES
    for table in paper.tables:
        for row in table.rows:
            assert len(row.values) == len(table.columns)
            assert all(value.is_finite() for value in row.values)  # the paper has no empty cell


def test_names_are_known_and_come_once(paper):
    for table in paper.tables:
        methods, columns = ([one.method for one in table.rows], [one.name for one in table.columns])
        assert len(set(methods)) == len(methods)
        assert len(set(columns)) == len(columns)
        assert {column.direction for column in table.columns} <= {"lower", "higher"}


def test_rows_are_run_or_say_why_they_are_quoted(paper):
    for row in (row for table in paper.tables for row in table.rows):
        assert bool(row.ours) != bool(row.why_quoted), row.method
        assert row.kind in (("method", "variant") if row.ours else ("method", "architecture")), row.method


@pytest.mark.parametrize(
    ("table", "method", "values"),
    [
        ("age", "OR-CNN", "4.40 63.67 5.09 83.80 2.83 61.97 4.01 73.41"),
        ("age", "FaRL", "3.87 65.38 4.95 84.52 3.04 63.49 3.96 74.18"),
        ("age", "DiffoR", "3.39 67.23 4.29 87.35 2.58 66.79 3.64 76.88"),
        ("watch-time", "TPM", "3.4584 0.5819 22.5950 0.6303"),
        ("watch-time", "EGMN", "3.1890 0.6098 19.3246 0.6682"),
        ("lifetime-value", "Two-stage", "21.719 0.2386 74.782 0.431"),
        ("lifetime-value", "DiffoR", "12.533 0.3066 66.522 0.557"),
        ("ablation", "DiffoR without both", "0.606 0.763 0.653 0.642"),
        ("aesthetics-tad66k-ava", "MPada", "1.191 0.589 0.408 0.389 0.602 0.632 0.543 0.531"),
        ("aesthetics-icaa17k-spaq", "MUSIQ", "0.6740 0.7059 0.5632 0.5504 1.0427 0.7308 0.6925 0.6401"),
        (
            "aesthetics",
            "AesMamba",
            "0.613 0.766 0.614 0.629 1.035 0.666 0.482 0.468 0.522 0.697 0.663 0.656 0.988 0.752 0.726 0.690",
        ),
    ],
)
def test_rows_are_those_of_the_paper_digit_by_digit(paper, table, method, values):
    assert [str(value) for value in row_named(paper, table, method).values] == values.split()


def test_columns_follow_the_paper(paper):
    names = {table.name: [column.name for column in table.columns] for table in paper.tables}
    assert [name.split()[0] for name in names["age"][::2]] == ["utkface", "fgnet", "morph", "cacd"]
    assert [name.split()[1] for name in names["age"]] == ["mae", "cs"] * 4
    assert names["watch-time"] == ["kuairec mae", "kuairec xauc", "kuairand mae", "kuairand xauc"]
    assert names["lifetime-value"] == ["criteo mae", "criteo srcc", "shoppers mae", "shoppers srcc"]
    assert [name.split()[0] for name in names["aesthetics"][::4]] == ["icaa17k", "tad66k", "ava", "spaq"]
    assert [name.split()[1] for name in names["aesthetics"][:4]] == ["mae", "xauc", "lcc", "srcc"]


def test_the_main_table_rounds_the_appendix(paper):
    main = table_named(paper, "aesthetics")
    differing = []
    for table in (table_named(paper, "aesthetics-tad66k-ava"), table_named(paper, "aesthetics-icaa17k-spaq")):
        for row in main.rows:
            longer = row_named(paper, table.name, row.method)
            for column, value in zip(table.columns, longer.values, strict=True):
                printed = row.values[main.columns.index(column)]
                if abs(printed - value) > Decimal("0.0005"):
                    differing.append((row.method, column.name))
    assert differing == [("TANet", "icaa17k lcc")]  # has a caveat


def test_columns_are_data_sets_and_metrics_of_this_package(paper):
    columns = [column for table in paper.tables for column in table.columns]
    assert {column.dataset for column in columns} == set(DISTRIBUTIONS)
    for column in columns:
        assert column.metric in DISTRIBUTIONS[column.dataset].metrics
        assert METRICS[column.metric].greater_is_better == (column.direction == "higher")


def test_ours_are_methods_of_this_package(paper):
    names = set(METHODS)
    for module in pkgutil.iter_modules(diffor.methods.baselines.__path__):
        content = vars(importlib.import_module(f"diffor.methods.baselines.{module.name}"))
        names.update(*(table for key, table in content.items() if key.endswith("_METHODS")))
    assert len(names) > 30
    for table in paper.tables:
        for row in table.rows:
            assert set(row.ours) <= names, f"{row.method} of {table.name}"


def test_a_method_is_described_alike_in_all_tables(paper):
    known = {}
    for row in (row for table in paper.tables for row in table.rows):
        described = (row.kind, row.ours, row.why_quoted, row.citation, row.year)
        assert known.setdefault(row.method, described) == described


def test_architectures_are_quoted(paper):
    quoted = {row.method for table in paper.tables for row in table.rows if row.kind == "architecture"}
    assert {"FaRL", "MUSIQ", "MaxViT", "TANet", "AesMamba"} <= quoted
    assert not quoted & {"NIMA", "POE", "UIAA", "AADB", "GoR", "DiffoR"}


def test_architectures_name_the_encoder_that_is_built_like_them(paper):
    named = {}
    for row in (row for table in paper.tables for row in table.rows if row.kind == "architecture"):
        *methods, encoder = re.findall(r"`([\w-]+)`", row.why_quoted)
        named[row.method] = encoder
        assert set(methods) <= set(METHODS)
        assert "weights" in row.why_quoted
    assert set(named.values()) == set(AESTHETIC_ENCODERS)
    assert len(named) == len(AESTHETIC_ENCODERS)


def test_several_scores_of_a_picture_are_told_of_where_there_are_none(paper):
    assert any("value regression" in text for text in figure_of(paper, "icaa17k", "mae", "MT-A").caveats)
    assert not any("value regression" in text for text in figure_of(paper, "spaq", "mae", "MT-A").caveats)
    assert figure_of(paper, "spaq", "mae", "MT-A").row.ours == ("mt-a",)


# Caveats of the committed file.


def test_caveats_point_at_cells(paper):
    for caveat in paper.caveats:
        cells = [
            (table.name, row.method, column.name)
            for table in paper.tables for row in table.rows for column in table.columns
            if caveat.concerns(table, row, column)
        ]  # fmt: skip
        assert {table for table, _, _ in cells} == set(caveat.tables)
        for table in caveat.tables:
            rows = {row for name, row, _ in cells if name == table}
            columns = {column for name, _, column in cells if name == table}
            assert rows == set(caveat.rows) or (not caveat.rows and len(rows) == SIZES[table][0])
            assert columns == set(caveat.columns) or (not caveat.columns and len(columns) == SIZES[table][1])


@pytest.mark.parametrize(("dataset", "constant"), [("ava", 0.578), ("tad66k", 1.204)])
def test_errors_above_a_constant_guess_are_marked(paper, dataset, constant):
    for figure in paper.figures(dataset, "mae"):
        marked = any("constant guess" in text for text in figure.caveats)
        assert marked == (figure.value > constant), figure.method


def test_no_icaa17k_row_is_below_the_constant_that_its_caveat_names(paper):
    figures = paper.figures("icaa17k", "mae", variants=True)
    assert min(figure.value for figure in figures) > 0.529
    assert all(any("0.529" in text for text in figure.caveats) for figure in figures)


def test_swapped_columns_contradict_the_errors(paper):
    for row in table_named(paper, "age").rows:
        _, _, fgnet_mae, fgnet_cs, morph_mae, morph_cs, _, _ = row.values
        assert fgnet_mae > morph_mae
        assert fgnet_cs > morph_cs
    for dataset, marked in (("utkface", False), ("fgnet", True), ("morph", True), ("cacd", False)):
        for figure in paper.figures(dataset, "cs"):
            assert any("swapped" in text for text in figure.caveats) == marked


def test_copied_figures_are_marked(paper):
    assert any("quoted from there" in text for text in figure_of(paper, "utkface", "mae", "SORD").caveats)
    assert figure_of(paper, "utkface", "mae", "GoR").caveats == ()
    copied = {figure.method for figure in paper.figures("criteo", "mae") if "OptDist" in "".join(figure.caveats)}
    assert copied == {"ZILN", "OptDist"}


# Figures.


def test_figures_are_in_our_units(paper):
    figure = figure_of(paper, "utkface", "cs", "OR-CNN")
    assert (figure.value, figure.printed, figure.unit) == (0.6367, "63.67", "percent")
    figure = figure_of(paper, "utkface", "mae", "OR-CNN")
    assert (figure.value, figure.printed, figure.unit) == (4.4, "4.40", "years")
    assert figure.row.ours == ("or-cnn",)


def test_each_method_comes_once_and_from_the_longer_table(paper):
    figures = paper.figures("icaa17k", "mae")
    methods = [figure.method for figure in figures]
    assert len(methods) == len(set(methods)) == 19
    gor = figure_of(paper, "icaa17k", "mae", "GoR")
    assert (gor.printed, gor.table) == ("0.5842", "aesthetics-icaa17k-spaq")


def test_variants_come_when_asked_for(paper):
    more = [figure.method for figure in paper.figures("icaa17k", "srcc", variants=True)]
    fewer = [figure.method for figure in paper.figures("icaa17k", "srcc")]
    assert more[: len(fewer)] == fewer
    assert more[len(fewer) :] == [row.method for row in table_named(paper, "ablation").rows if row.kind == "variant"]


@pytest.mark.parametrize(("dataset", "metric"), [("utkface", "xauc"), ("diabetes", "mae")])
def test_what_the_paper_does_not_print_is_empty(paper, dataset, metric):
    assert paper.figures(dataset, metric) == []


def test_the_file_is_installed_with_the_modules():
    assert PUBLISHED_FILE.parent == Path(published.__file__).parent
