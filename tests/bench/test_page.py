"""The page about a benchmark: its tables hold the figures that the lines give."""

import pytest

pytest.importorskip("matplotlib")

from browser import CHROMIUM, measured
from result_lines import a_line

from diffor.bench.leaderboard import latest_cells
from diffor.bench.page import benchmark_sections
from diffor.reports.html import Figure, Heading, Paragraph, Table, html_page


def lines(n_datasets=6):
    for d in range(n_datasets):
        for place, method in enumerate(("ours", "theirs", "constant")):
            for seed in range(2):
                line = a_line(f"set{d}", method, seed, 1.0 + place + 0.1 * seed)
                yield line if d else line | {"metrics": {**line["metrics"], "crps_truth": 0.5}}


@pytest.fixture(scope="module")
def cells():
    found = latest_cells(lines())
    found |= latest_cells(a_line("marks", m, 0, c, "grades") for m, c in (("ours", 1.0), ("constant", 2.0)))
    failed = a_line("set9", "theirs", 0, 1.0, status="failed", error="timeout: not finished")
    found |= latest_cells([failed, a_line("set9", "ours", 0, 1.0)])
    return found


@pytest.fixture(scope="module")
def sections(cells):
    return benchmark_sections(cells, n_damaged=2)


def table_with(sections, words):
    (found,) = [section for section in sections if isinstance(section, Table) and words in section.caption]
    return found


def column(table, name):
    place = table.header.index(name)
    return {row[0]: row[place] for row in table.rows}


def texts(sections):
    return " ".join(section.text for section in sections if isinstance(section, Paragraph))


def test_the_parts_of_the_page(sections):
    headings = [section.text for section in sections if isinstance(section, Heading) and section.level == 2]
    assert headings == ["What ran", "Values: leaderboard", "Grades: leaderboard", "What went wrong", "Circumstances"]


def test_what_ran_is_said(sections):
    facts = dict(table_with(sections, "What the figures depend on").rows)
    assert facts["commits"] == "abc123+changes"
    assert facts["machines"] == "a large one"
    assert facts["versions"] == "numpy 9.9"
    assert facts["finished"].startswith("2026-11-16 10:00")
    assert facts["commands"] == "diffor bench run.toml"
    assert "2 damaged line(s)" in texts(sections)


def test_of_many_commands_a_few_are_named():
    failed = [a_line("set0", f"method{number}", 0, 1.0, status="failed", command=f"diffor bench {number}")
              for number in range(5)]  # fmt: skip
    facts = dict(table_with(benchmark_sections(latest_cells(failed)), "What the figures depend on").rows)
    said = "diffor bench 0, diffor bench 1, diffor bench 2, and 2 more, which the lines name"
    assert facts["commands"] == said


def test_the_leaderboard_fits_a_screen(sections):
    table = table_with(sections, "By CRPS, means over 6 data sets")
    assert [row[0] for row in table.rows] == ["ours", "theirs", "constant"]
    assert column(table, "rank") == {"ours": "1.00", "theirs": "2.00", "constant": "3.00"}
    assert column(table, "wins") == {"ours": "6", "theirs": "0", "constant": "0"}
    assert column(table, "relative")["theirs"] == f"{2.05 / 1.05:.3f}"
    assert column(table, "in band")["ours"] == "6/6"
    assert (column(table, "fit s")["ours"], column(table, "predict s")["ours"]) == ("2.00", "0.50")
    assert (table.sortable, table.fits, len(table.header)) == (True, True, 8)
    assert table.strong == {(0, 1), (0, 2), (0, 3)}


def test_all_measures_stand_beside_each_other(sections):
    before_grades = sections[: sections.index(Heading("Grades: leaderboard"))]
    ranks, far = (table_with(before_grades, words) for words in ("Mean rank, and", "Distance from the best"))
    assert column(ranks, "CRPS") == {"ours": "1.00 (6)", "theirs": "2.00 (0)", "constant": "3.00 (0)"}
    assert column(ranks, "rank correlation") == dict.fromkeys(("ours", "theirs", "constant"), "2.00 (6)")
    assert column(far, "MAE")["theirs"] == f"{2.05 / 1.05:.3f}"
    assert column(far, "rank correlation")["constant"] == "0.000"


def test_one_table_tells_who_wins_where_and_by_how_much():
    found = latest_cells(a_line(name, m, 0, c) for name, scores in (("one", (2.0, 1.0, 4.0)), ("two", (1.0, 3.0, 2.5)))
                         for m, c in zip(("ours", "theirs", "constant"), scores, strict=True))  # fmt: skip
    table = table_with(benchmark_sections(found), "which it beats on 1 of 2 sets")
    assert table.header == ("data set", "best", "CRPS", "next", "behind", "ours")
    assert table.rows == (("one", "theirs", "1", "ours", "+100.0%", "+100.0%"),
                          ("two", "ours", "1", "constant", "+150.0%", "-60.0%"))  # fmt: skip
    assert table.strong == {(1, 5)}
    (alone,) = [s for s in benchmark_sections(found, methods=["theirs", "constant"])
                if isinstance(s, Table) and s.header[1:2] == ("best",)]  # fmt: skip
    assert alone.header[-1] == "behind"


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium to lay pages out")
def test_the_leaderboard_is_never_cut_off(tmp_path):
    methods = ("ours", "hist-gradient-boosting", "catboost-uncertainty", "lightgbm-quantile", "constant")
    found = latest_cells(a_line(f"synthetic-heteroscedastic-{d}", m, 0, 0.0123456 * 3**place, fit_seconds=1234.5)
                         for d in range(4) for place, m in enumerate(methods))  # fmt: skip
    tables = [section for section in benchmark_sections(found) if isinstance(section, Table) and section.fits]
    assert len(tables) == 4
    beyond = "[...inner.querySelectorAll('.wide')].map((one) => one.scrollWidth - one.clientWidth).join(' ')"
    page = {"page": html_page("Fits", tables)}
    assert measured(tmp_path, page, (390, 1200), beyond) == ["0 0 0 0", "0 0 0 0"]


def test_methods_keep_their_order_in_every_table():
    lines = [a_line(f"set{d}", m, 0, c) for d in range(3) for m, c in (("ours", 1.0), ("theirs", 2.0))]
    for line in lines:
        line["metrics"]["mae"] = -line["metrics"]["crps"] + 5  # the other way round
    both = ["ours", "theirs"]
    tables = [s for s in benchmark_sections(latest_cells(lines)) if isinstance(s, Table) and s.header[1:2] != ("best",)]
    orders = [[name for name in names if name in both]
              for table in tables for names in (table.header, [row[0] for row in table.rows])]  # fmt: skip
    assert len([names for names in orders if names]) > 8
    assert all(names in ([], both) for names in orders)


def test_sets_left_out_are_named(sections):
    assert "set9 (no result of theirs, constant)" in texts(sections)


def test_tables_by_set_show_mean_spread_and_the_best(sections):
    table = table_with(sections, "CRPS (less is better)")
    assert table.header == ("data set", "training rows", "ours", "theirs", "constant")
    assert table.rows[0] == ("set0", "12,345", "1.05 ± 0.07071", "2.05 ± 0.07071", "3.05 ± 0.07071")
    assert table.strong == frozenset((row, 2) for row in range(6))
    assert "QWK (greater is better)" in table_with(sections, "QWK (greater").caption


def test_pairs_are_counted_and_tested(sections):
    wins = table_with(sections, "CRPS: on how many of 6 data sets")
    assert wins.rows[0] == ("ours", "-", "6", "6")
    assert wins.rows[1] == ("theirs", "0", "-", "6")
    # Six wins of six have p = 2 / 64, which three pairs raise above 0.05.
    assert wins.strong == frozenset()
    ours = table_with(sections, "CRPS, ours against others")
    assert ours.rows[0] == ("ours : theirs", "6", "0", "0", "0.031", "0.094")


def test_differences_that_are_sure_are_bold():
    wins = table_with(benchmark_sections(latest_cells(lines(9))), "CRPS: on how many of 9 data sets")
    assert wins.strong == {(0, 2), (0, 3), (1, 3)}


def test_pairs_name_ours_first_also_where_we_lose():
    found = latest_cells(
        a_line(f"set{d}", m, 0, c) for d in range(3) for m, c in (("ours", 2.0), ("theirs", 1.0), ("constant", 3.0))
    )
    rows = {row[0]: row[1:4] for row in table_with(benchmark_sections(found), "CRPS, ours against").rows}
    assert rows == {"ours : theirs": ("0", "0", "3"), "ours : constant": ("3", "0", "0")}


def test_the_truth_is_the_measure_where_it_is_known(sections):
    table = table_with(sections, "true distribution")
    assert table.rows == (("set0", "0.5", "2.100", "4.100", "6.100"),)


def test_figures_of_each_task(sections):
    labels = [section.label for section in sections if isinstance(section, Figure)]
    assert any("groups that do not differ" in label for label in labels)  # of the values: grades have one set
    assert sum("against seconds to fit" in label for label in labels) == 2
    assert sum("against seconds to predict" in label for label in labels) == 2
    assert sum("from nominal" in label for label in labels) == 2
    assert sum("on each data set" in label for label in labels) == 2


def test_failed_and_missing_cells_are_listed(sections):
    assert table_with(sections, "1 failed cells").rows == (("set9", "theirs", "0", "timeout: not finished"),)
    missing = {row[0]: row[2] for row in table_with(sections, "Cells without a line").rows}
    assert missing["constant"] == "set9 (seed 0, 1)"
    assert missing["ours"] == "set9 (seed 1)"


def test_a_clean_run_says_so():
    said = texts(benchmark_sections(latest_cells(lines())))
    assert "No cell failed." in said
    assert "No cell is missing." in said
    assert "No data set is left out." in said


def test_the_constant_alone_is_a_page_too():
    found = latest_cells([a_line("set0", "constant", 0, 1.0)])
    assert "There are no two methods to compare." in texts(benchmark_sections(found))


def test_nothing_but_failures_is_a_page_too():
    found = latest_cells([a_line("set0", "ours", 0, 1.0, status="failed", error="x" * 900)])
    table = table_with(benchmark_sections(found), "1 failed cells")
    assert table.rows[0][3].endswith("x ...")


def test_chosen_methods_are_compared_and_the_others_named(cells):
    sections = benchmark_sections(cells, methods=["ours", "theirs"])
    table = table_with(sections, "CRPS (less is better)")
    assert table.header[2:] == ("ours", "theirs")
    assert "Not ranked, for want of results or by choice: constant." in texts(sections)
