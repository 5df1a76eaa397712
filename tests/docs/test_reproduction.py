"""What docs/reproduction.md says of printed figures, of sizes and of runs is what they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from diffor.bench.published import read_published
from diffor.methods.diffor.networks import Denoiser, IncrementHeads, TransformerDenoiser
from diffor.methods.diffor.scale_heads import ScaleHeadsDenoiser

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"
TEXT = PAGE.read_text(encoding="utf-8")


def printed(dataset: str, metric: str) -> tuple[float, dict[str, float]]:
    """The paper's figure of DiffoR, in its own unit, and those of all other methods."""
    found = {one.method: float(one.printed) for one in read_published().figures(dataset, metric)}
    return found.pop("DiffoR"), found


def row_of(start: str) -> str:
    """The table row that begins with these words."""
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| {start}")]
    return row


def gain(dataset: str, metric: str, rival: str | None = None) -> tuple[float, float, str]:
    """By how much DiffoR is printed to be better than the best other, in units and percent, and which that is."""
    ours, others = printed(dataset, metric)
    best = rival or (min if metric == "mae" else max)(others, key=lambda name: others[name])
    difference = abs(ours - others[best])
    return difference, 100 * difference / others[best], best


@pytest.mark.parametrize(
    ("dataset", "share"), [("utkface", "1.17"), ("cacd", "2.41"), ("morph", "4.09"), ("fgnet", "8.33")]
)
def test_gains_in_age(dataset: str, share: str) -> None:
    _, percent, rival = gain(dataset, "mae")
    assert rival == "GoR"
    assert f"{percent:.2f}" == share
    assert f"{share} %" in row_of("facial age: MAE")


@pytest.mark.parametrize(
    ("dataset", "points"), [("utkface", ".65"), ("cacd", "1.59"), ("fgnet", "1.69"), ("morph", "1.84")]
)
def test_cumulative_scores(dataset: str, points: str) -> None:
    difference, _, _ = gain(dataset, "cs")
    assert f"{difference:.2f}".removeprefix("0") == points
    assert points in row_of("facial age: CS").split("|")[3]


def test_watch_time() -> None:
    assert f"{gain('kuairec', 'mae')[1]:.2f}" == "1.45"
    assert gain("kuairec", "mae")[2] == "EGMN"
    assert f"{gain('kuairand', 'mae')[0]:.4f}" == "0.1676"
    assert (f"{gain('kuairand', 'xauc')[1]:.2f}", gain("kuairand", "xauc")[2]) == ("0.71", "D2Q")
    _, others = printed("kuairec", "xauc")
    assert (others["CREAD"], others["GoR"]) == (0.6119, 0.6117)
    assert max(others, key=lambda name: others[name]) == "CREAD"


def test_lifetime_value() -> None:
    assert f"{gain('criteo', 'mae')[1]:.2f}" == "3.56"
    assert f"{gain('criteo', 'srcc')[1]:.2f}" == "1.32"
    assert f"{gain('shoppers', 'mae')[0]:.3f}" == "0.513"
    assert f"{gain('shoppers', 'srcc')[1]:.2f}" == "4.50"
    assert ".513" in row_of("lifetime value: MAE .531")


def test_ablation() -> None:
    figures = [one for one in read_published().all if one.table == "ablation"]
    methods = dict.fromkeys(one.method for one in figures)
    rows = [[float(one.printed) for one in figures if one.method == method] for method in methods]
    full, flow, mlp, without_mia, *_, worst = rows
    assert full[3] - without_mia[3] == pytest.approx(0.099)
    assert worst[0] == max(row[0] for row in rows)
    assert all(worst[place] == min(row[place] for row in rows) for place in (1, 2, 3))
    assert max(abs(one - other) for one, other in zip(full, flow, strict=True)) == pytest.approx(0.001)
    assert mlp[0] < printed("icaa17k", "mae")[1]["GoR"] == 0.5842
    assert mlp[3] > printed("icaa17k", "srcc")[1]["GoR"] == 0.6789


def test_sizes_of_the_networks() -> None:
    def count(network: Denoiser | IncrementHeads) -> int:
        return sum(one.numel() for one in network.parameters())

    for denoiser in (ScaleHeadsDenoiser(8, 256), TransformerDenoiser(8, 256)):
        assert f"{count(denoiser):,} of the denoiser" in TEXT
    assert f"{count(IncrementHeads(8)):,} parameters" in TEXT


def test_diagnoses_are_of_clean_commits() -> None:
    files = re.findall(r"\(\.\./(benchmarks/results/diagnosis\w+\.json)\)", TEXT)
    assert len(files) >= 3
    for name in files:
        assert re.fullmatch(r"[0-9a-f]{12}", json.loads((PAGE.parents[1] / name).read_text())["commit"]), name


def test_figures_that_are_called_older_are_older_than_heads_of_scales() -> None:
    """The change of the preset ``paper``; a file made anew leaves the list."""
    older = TEXT.split("## Which figures are older than the method")[1].split("\n## ")[0]
    files = re.findall(r"\(\.\./(benchmarks/results/\w[\w-]*\.jsonl?)\)", older)
    assert len(files) == 11
    for name in files:
        lines = (PAGE.parents[1] / name).read_text(encoding="utf-8")
        contents = [json.loads(line) for line in lines.splitlines()] if name.endswith("l") else [json.loads(lines)]
        assert all(one.get("when", one.get("date", "9")) < "2026-11-19T04:16" for one in contents), name
    named = set(re.findall(r"results/[\w-]+-small\.json|results/diagnosis_\w+_paper\.json", TEXT))
    assert named <= {name.removeprefix("benchmarks/") for name in files}


def test_what_is_called_reproduced_has_no_interval_that_holds_the_opposite() -> None:
    for line in TEXT.splitlines():
        cells = line.split("|")
        if len(cells) > 3 and cells[2].strip() == "**reproduced**":
            first = re.search(r"([+-][\d.]+) % [^(]*\(([+-][\d.]+) to ([+-][\d.]+)", cells[3])
            assert first is None or float(first[2]) * float(first[3]) > 0, line
