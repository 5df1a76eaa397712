"""Which setting each method turns, and what that is said to be worth."""

import pytest

pytest.importorskip("matplotlib")

from experiment_cells import cells_of

from diffor.paper.experiments.dials import find_dials, read_dials
from diffor.paper.experiments.grids import HEAD_NAMES, HEADINGS
from diffor.reports.html import Figure, Heading, Table

SETTINGS = {
    "constant": {},
    "base": {"width": 120},
    "increments-0": {"width": 120, "n_increments": 1},
    "increments-4": {"width": 120, "n_increments": 4},
    "attention-0": {"width": 120, "denoiser": "mlp"},
    "attention-4": {"width": 120, "n_attention_heads": 4},
    "spacing-log": {"width": 120, "spacing": "log"},
    "chain-2": {"width": 120, "decoding": "chain", "n_steps": 2},
    "chain-4": {"width": 120, "decoding": "chain", "n_steps": 4},
}
FACTORS = {"increments-0": 1.5, "increments-4": 1.1, "chain-2": 1.2}


@pytest.fixture
def cells():
    full = [1.0, 1.2, 0.9]
    found = cells_of({("wine", name): [value * FACTORS.get(name, 1.0) * (1 + 0.001 * seed) for seed, value in
                                       enumerate(full)] for name in SETTINGS})  # fmt: skip
    for (_, method, _), line in found.items():
        line["settings"] = SETTINGS[method]
    return found


def test_the_setting_that_differs_from_the_base_is_the_dial(cells):
    dials = {dial.setting: dial for dial in find_dials(cells, HEAD_NAMES)}
    assert set(dials) == {"n_increments", "n_attention_heads", "spacing", "n_steps, decoding=chain"}
    assert dials["n_increments"].positions() == [(0, "increments-0"), (4, "increments-4"), (8, "base")]
    assert dials["n_attention_heads"].positions() == [(0, "attention-0"), (4, "attention-4"), (8, "base")]
    assert dials["spacing"].positions() == [("log", "spacing-log"), ("linear", "base")]
    assert not dials["spacing"].is_numeric
    # The base reads heads: it has no place among chains.
    assert dials["n_steps, decoding=chain"].positions() == [(2, "chain-2"), (4, "chain-4")]


def test_without_a_base_nothing_can_be_compared(cells):
    without = {place: line for place, line in cells.items() if place[1] != "base"}
    with pytest.raises(ValueError, match="there must be cells of the method 'base', but methods are constant"):
        find_dials(without)


def test_sentences_say_what_each_value_costs(cells):
    findings = read_dials(cells, HEAD_NAMES, HEADINGS)
    text = next(text for text in findings.sentences if text.startswith("Number of increments"))
    assert text.startswith("Number of increments, CRPS against 8: 0: +50.0 % (+50.0 to +50.0), worse; 4: +10.0 %")
    chain = next(text for text in findings.sentences if text.startswith("Steps of a prediction, reading the last"))
    assert "against the base: 2: +20.0 %" in chain
    assert findings.numbers["dials"]["n_increments"] == {0: "increments-0", 4: "increments-4", 8: "base"}


def test_steps_have_their_time_beside_their_quality(cells):
    for (_, method, seed), line in cells.items():
        line["predict_seconds"] = (2.0 if method == "chain-4" else 1.0) * (seed + 1)
    findings = read_dials(cells, HEAD_NAMES, HEADINGS)
    words = "Steps of a prediction, reading the last state, time of a prediction as a multiple of the base's: "
    assert f"{words}2: 1.00; 4: 2.00." in findings.sentences
    assert findings.numbers["prediction_time"]["chain-4"] == 2.0
    assert not any(text.startswith("Number of increments, time") for text in findings.sentences)


def test_lines_without_times_say_nothing_about_them(cells):
    findings = read_dials(cells, HEAD_NAMES, HEADINGS)
    assert set(findings.numbers["prediction_time"].values()) == {None}
    assert not any("time of a prediction" in text for text in findings.sentences)


def test_numbers_have_curves_and_words_have_tables_only(cells):
    sections = read_dials(cells, HEAD_NAMES, HEADINGS).sections
    by_dial, current = {}, None
    for section in sections:
        if isinstance(section, Heading):
            current = by_dial.setdefault(section.text, [])
        else:
            current.append(type(section))
    assert by_dial["Number of increments"].count(Figure) == 3
    assert by_dial["Spacing of the aligned times"].count(Figure) == 0
    assert by_dial["Spacing of the aligned times"].count(Table) == 3
    labels = [section.label for section in sections if isinstance(section, Figure)]
    assert "MAE against Number of attention heads" in labels
