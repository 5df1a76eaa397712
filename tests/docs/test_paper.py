"""The page that tells the paper in the library's words: its examples run, what it names exists."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from diffor.methods.diffor.paper import IncrementDiffusion

PAGE = Path(__file__).parents[2] / "docs" / "paper.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_example_gives_what_it_shows() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) > 20
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 90
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted == len(test.examples)


def test_every_equation_of_the_method_is_there() -> None:
    sections = " ".join(re.findall(r"^## \d+\. .*", TEXT, re.MULTILINE))
    covered = set()
    for part in re.findall(r"Eq\. ([\d ,toand]+)", sections):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", part):
            covered |= set(range(int(first), int(last or first) + 1))
    assert covered == set(range(1, 21))


def test_the_choices_are_those_of_the_code() -> None:
    method = IncrementDiffusion(n_features=2)
    assert (method.n_increments, method.process.n_times, method.aligned_share, method.eta) == (8, 1000, 0.5, 0.0)
    assert method.heads.first.shape[-1] == 32
    for line in (
        "| S | 8 |",
        "| T and the schedule | 1000, linear |",
        "one hidden layer of 32",
        "| β of the mixture | .5 |",
    ):
        assert line in TEXT


def test_lines_are_short() -> None:
    assert max(map(len, TEXT.splitlines())) <= 125  # formulas in a line are a little longer
