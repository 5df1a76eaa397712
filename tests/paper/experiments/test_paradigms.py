"""The four paradigms joined: every one has its tables, its numbers and its figure."""

import json

import pytest

pytest.importorskip("matplotlib")

from diffor.paper.experiments.paradigms import PARADIGMS, run_paradigms
from diffor.reports.html import Figure, Heading, Table


def test_every_paradigm_is_announced_measured_and_drawn(quick_paradigms):
    found, logged = quick_paradigms.found, quick_paradigms.logged
    assert [text.split(": ")[0] for text in logged] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert list(found.numbers) == [paradigm.name for paradigm in PARADIGMS]
    titles = [section.text for section in found.sections if isinstance(section, Heading)]
    assert titles == [paradigm.title for paradigm in PARADIGMS]
    assert sum(isinstance(section, Figure) for section in found.sections) == 4
    assert sum(isinstance(section, Table) for section in found.sections) >= 12
    assert json.loads(json.dumps(found.numbers, allow_nan=False)) == found.numbers


def test_what_is_found_is_kept_and_a_stopped_run_goes_on(quick_paradigms, tmp_path):
    *done, last = quick_paradigms.lines.read_text().splitlines()
    lines, logged, other = tmp_path / "paradigms.jsonl", [], {**json.loads(last), "found": {"n_rows": 3}}
    lines.write_text(
        "\n".join([*done, json.dumps(other)]) + "\n"
    )  # the last is of a version that measured other things
    assert run_paradigms("quick", log=logged.append, lines=lines) == quick_paradigms.found
    assert ["already" in text for text in logged] == [True, True, True, False]
    assert logged[0] == f"{quick_paradigms.logged[0]}, which is in {lines} already"
    assert len(lines.read_text().splitlines()) == 5
    chosen = PARADIGMS[-1:]
    run_paradigms("quick", 1, log=logged.append, paradigms=chosen, lines=lines)  # of another seed nothing is known
    assert len(lines.read_text().splitlines()) == 6
