"""Which setting each method changes, and what that is worth."""

import pytest

pytest.importorskip("matplotlib")

from experiment_cells import cells_of

from diffor.paper.experiments.grids import HEAD_NAMES, HEADINGS
from diffor.paper.experiments.sweeps import find_sweeps, read_sweeps
from diffor.reports.html import Figure, Heading, Table

SETTINGS = {
    "constant": {},
    "base": {"width": 120},
    "heads-0": {"width": 120, "n_increments": 1, "decoding": "fusion", "n_steps": 8},
    "heads-4": {"width": 120, "n_increments": 4},
    "spacing-log": {"width": 120, "spacing": "log"},
    "chain-2": {"width": 120, "decoding": "chain", "n_steps": 2},
    "chain-4": {"width": 120, "decoding": "chain", "n_steps": 4},
}
FACTORS = {"heads-0": 1.5, "heads-4": 1.1, "chain-2": 1.2}


@pytest.fixture
def cells():
    full = [1.0, 1.2, 0.9]
    found = cells_of({("wine", name): [value * FACTORS.get(name, 1.0) * (1 + 0.001 * seed) for seed, value in
                                       enumerate(full)] for name in SETTINGS})  # fmt: skip
    for (_, method, _), line in found.items():
        line["settings"] = SETTINGS[method]
    return found


def test_the_setting_that_differs_from_the_base_is_the_one_swept(cells):
    sweeps = {sweep.setting: sweep for sweep in find_sweeps(cells, HEAD_NAMES)}
    assert set(sweeps) == {"n_increments", "spacing", "n_steps, decoding=chain"}
    assert sweeps["n_increments"].positions() == [(0, "heads-0"), (4, "heads-4"), (8, "base")]
    assert sweeps["spacing"].positions() == [("log", "spacing-log"), ("linear", "base")]
    assert not sweeps["spacing"].is_numeric
    # The base reads heads: it has no place among chains.
    assert sweeps["n_steps, decoding=chain"].positions() == [(2, "chain-2"), (4, "chain-4")]


def test_without_a_base_nothing_can_be_compared(cells):
    without = {place: line for place, line in cells.items() if place[1] != "base"}
    with pytest.raises(ValueError, match="there must be cells of the method 'base', but methods are constant"):
        find_sweeps(without)


def test_tables_say_what_each_value_costs(cells):
    findings = read_sweeps(cells, HEAD_NAMES, HEADINGS)
    crps = next(one for one in findings.sections if isinstance(one, Table) and one.header[0] == "n increments"
                and one.caption.startswith("CRPS"))  # fmt: skip
    assert [(row[0], row[4]) for row in crps.rows] == [
        ("0", "+50.0 % (+50.0 to +50.0)"),
        ("4", "+10.0 % (+10.0 to +10.0)"),
    ]
    assert "The base has 8." in crps.caption
    assert findings.numbers["sweeps"]["n_increments"] == {0: "heads-0", 4: "heads-4", 8: "base"}


def test_steps_have_their_time_beside_their_quality(cells):
    assert set(read_sweeps(cells, HEAD_NAMES, HEADINGS).numbers["prediction_time"].values()) == {None}
    for (_, method, seed), line in cells.items():
        line["predict_seconds"] = (2.0 if method == "chain-4" else 1.0) * (seed + 1)
    findings = read_sweeps(cells, HEAD_NAMES, HEADINGS)
    (times,) = [one for one in findings.sections if isinstance(one, Table) and "time of a prediction" in one.header]
    assert times.rows == (("2", "1.00"), ("4", "2.00"))
    assert findings.numbers["prediction_time"]["chain-4"] == 2.0


def test_numbers_have_curves_and_words_have_tables_only(cells):
    sections = read_sweeps(cells, HEAD_NAMES, HEADINGS).sections
    by_setting, current = {}, None
    for section in sections:
        if isinstance(section, Heading):
            current = by_setting.setdefault(section.text, [])
        else:
            current.append(type(section))
    assert by_setting["Number of increments, each with an attention head"].count(Figure) == 3
    assert by_setting["Spacing of the aligned times"].count(Figure) == 0
    assert by_setting["Spacing of the aligned times"].count(Table) == 3
    labels = [section.label for section in sections if isinstance(section, Figure)]
    assert "MAE against Number of increments, each with an attention head" in labels
