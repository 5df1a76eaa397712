"""The four paradigms joined: every one has its tables, its numbers and its figure."""

import json

import pytest

pytest.importorskip("matplotlib")

from diffor.paper.experiments.paradigms import PARADIGMS, run_paradigms
from diffor.reports.html import Figure, Heading, Table


def test_every_paradigm_is_announced_measured_and_drawn():
    logged = []
    found = run_paradigms("quick", log=logged.append)
    assert [text.split(": ")[0] for text in logged] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert list(found.numbers) == [paradigm.name for paradigm in PARADIGMS]
    titles = [section.text for section in found.sections if isinstance(section, Heading)]
    assert titles == [paradigm.title for paradigm in PARADIGMS]
    assert sum(isinstance(section, Figure) for section in found.sections) == 4
    assert sum(isinstance(section, Table) for section in found.sections) >= 8
    assert json.loads(json.dumps(found.numbers, allow_nan=False)) == found.numbers


def test_what_is_found_is_kept_and_a_stopped_run_goes_on(tmp_path):
    chosen, lines, logged = PARADIGMS[-1:], tmp_path / "paradigms.jsonl", []
    first = run_paradigms("quick", log=logged.append, paradigms=chosen, lines=lines)
    again = run_paradigms("quick", log=logged.append, paradigms=chosen, lines=lines)
    assert logged[1] == f"{logged[0]}, which is in {lines} already"
    assert again == first
    assert len(lines.read_text().splitlines()) == 1
    run_paradigms("quick", 1, log=logged.append, paradigms=chosen, lines=lines)  # of another seed nothing is known
    assert len(lines.read_text().splitlines()) == 2


def test_lines_of_another_version_are_measured_anew(tmp_path):
    lines, logged = tmp_path / "paradigms.jsonl", []
    known = {"dataset": "known laws", "method": PARADIGMS[-1].name, "seed": 0, "status": "ok", "found": {"n_rows": 3}}
    lines.write_text(json.dumps(known) + "\n")
    found = run_paradigms("quick", log=logged.append, paradigms=PARADIGMS[-1:], lines=lines)
    assert logged == [f"1 of 1: {PARADIGMS[-1].title}"]
    assert found.numbers[PARADIGMS[-1].name]["n_rows"] == 300
