"""What the ablation says, from lines whose differences are known."""

import pytest

pytest.importorskip("matplotlib")

from experiment_cells import cells_of

from diffor.paper.experiments.ablation import VARIANTS, published_differences, read_ablation
from diffor.paper.experiments.contrasts import COMPARED
from diffor.reports.html import Figure, Table

MAE, CRPS, SRCC, *_ = COMPARED
WITHOUT = "d-without-mia (without MIA (one increment))"


def test_the_papers_differences_are_those_of_its_table():
    found = published_differences(MAE)
    assert found["b-flow-matching"] == pytest.approx(0.551 / 0.552 - 1)
    assert found["f-without-both"] == pytest.approx(0.606 / 0.552 - 1)
    assert published_differences(SRCC)["d-without-mia"] == pytest.approx(0.666 - 0.765)
    assert published_differences(CRPS) == {}  # the paper prints none


@pytest.fixture(scope="module")
def findings():
    full = [1.0, 1.2, 0.9]
    table = {("wine", "a-full"): full, ("movies", "a-full"): [2 * value for value in full]}
    for place, name in enumerate(VARIANTS):
        for dataset, scale in (("wine", 1.0), ("movies", 2.0)):
            table[dataset, name] = [
                scale * value * (1 + 0.02 * place + 0.001 * seed) for seed, value in enumerate(full)
            ]
    return read_ablation(cells_of(table))


def test_numbers_and_page_hold_every_contrast(findings):
    # Six variants, three measures, two sets and their mean.
    assert len(findings.numbers["contrasts"]) == 6 * 3 * 3
    tables = [section for section in findings.sections if isinstance(section, Table)]
    figures = [section for section in findings.sections if isinstance(section, Figure)]
    assert (len(tables), len(figures)) == (3, 3)
    assert (WITHOUT, "wine", "1.033", "1.076", "+4.1 % (+3.9 to +4.3)", "3", "+8.2 %") in tables[0].rows
    place = tables[0].rows.index((WITHOUT, "wine", "1.033", "1.076", "+4.1 % (+3.9 to +4.3)", "3", "+8.2 %"))
    assert (place, 4) in tables[0].strong  # the interval leaves zero out


def test_all_sets_have_the_papers_crosses_and_no_level_of_errors(findings):
    captions = [section.caption for section in findings.sections if isinstance(section, Figure)]
    assert captions == [*["Crosses are the differences that the paper prints, on ICAA17K.", ""], captions[0]]
    tables = [section for section in findings.sections if isinstance(section, Table)]
    joined = [next(row for row in table.rows if row[:2] == (WITHOUT, "all sets")) for table in tables]
    assert joined[0][2:4] == ("-", "-")  # a mean over data sets with different units says nothing
    assert joined[2][2:4] == ("0.5", "0.5")


def test_a_variant_that_did_not_run_is_left_out():
    findings = read_ablation(cells_of({("wine", "a-full"): [1.0, 1.2], ("wine", "c-mlp"): [1.1, 1.3]}))
    assert {one["method"] for one in findings.numbers["contrasts"]} == {"c-mlp"}


def test_all_four_metrics_of_the_papers_table_are_compared():
    printed = {measure.name: published_differences(measure) for measure in COMPARED}
    assert [name for name, found in printed.items() if found] == ["mae", "srcc", "xauc", "lcc"]
    assert printed["xauc"]["d-without-mia"] == pytest.approx(0.786 - 0.841)
    assert printed["lcc"]["f-without-both"] == pytest.approx(0.653 - 0.759)
    cells = cells_of({("icaa17k", name): [1.0, 1.1, 0.9] for name in ("a-full", "d-without-mia")})
    for (_, name, _), line in cells.items():
        line["metrics"] |= {"xauc": 0.8 - 0.05 * (name != "a-full"), "lcc": 0.7}
    found = {one["metric"]: one["mean"] for one in read_ablation(cells).numbers["contrasts"]}
    assert found["xauc"] == pytest.approx(-0.05)
    assert found["lcc"] == 0.0
