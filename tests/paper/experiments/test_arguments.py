"""The four arguments joined: every one has its sentences, its numbers and its figure."""

import json

import pytest

pytest.importorskip("matplotlib")

from diffor.paper.experiments.arguments import ARGUMENTS, run_paradigms
from diffor.reports.html import Figure, Heading


@pytest.fixture(scope="module")
def findings():
    logged = []
    found = run_paradigms("quick", log=logged.append)
    return found, logged


def test_every_argument_is_announced_measured_and_drawn(findings):
    found, logged = findings
    assert [text.split(": ")[0] for text in logged] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert list(found.numbers) == [argument.name for argument in ARGUMENTS]
    assert [section.text for section in found.sections if isinstance(section, Heading)] == [
        argument.title for argument in ARGUMENTS
    ]
    assert sum(isinstance(section, Figure) for section in found.sections) == 4


def test_what_is_found_is_kept_and_a_stopped_run_goes_on(findings, tmp_path):
    chosen, lines, logged = ARGUMENTS[-1:], tmp_path / "paradigms.jsonl", []
    first = run_paradigms("quick", log=logged.append, arguments=chosen, lines=lines)
    again = run_paradigms("quick", log=logged.append, arguments=chosen, lines=lines)
    assert logged[1] == f"{logged[0]}, which is in {lines} already"
    assert (again.sentences, again.numbers, again.sections) == (first.sentences, first.numbers, first.sections)
    assert len(lines.read_text().splitlines()) == 1
    run_paradigms("quick", 1, log=logged.append, arguments=chosen, lines=lines)  # of another seed nothing is known
    assert len(lines.read_text().splitlines()) == 2


def test_lines_of_another_version_are_measured_anew(tmp_path):
    lines, logged = tmp_path / "paradigms.jsonl", []
    known = {"dataset": "known laws", "method": ARGUMENTS[-1].name, "seed": 0, "status": "ok", "found": {"n_rows": 3}}
    lines.write_text(json.dumps(known) + "\n")
    found = run_paradigms("quick", log=logged.append, arguments=ARGUMENTS[-1:], lines=lines)
    assert logged == [f"1 of 1: {ARGUMENTS[-1].title}"]
    assert found.numbers[ARGUMENTS[-1].name]["n_rows"] == 300


def test_numbers_are_plain_and_every_title_is_followed_by_a_sentence(findings):
    found, _ = findings
    assert json.loads(json.dumps(found.numbers, allow_nan=False)).keys() == found.numbers.keys()
    titles = [f"{argument.title}." for argument in ARGUMENTS]
    for title in titles:
        following = found.sentences[found.sentences.index(title) + 1]
        assert following not in titles
        assert any(letter.isdigit() for letter in following)
