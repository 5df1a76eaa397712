"""The commands that write, with what must hold after a kill and after they were started again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from kills_processes import run_command
from PIL import Image

from diffor.bench.run import read_lines
from diffor.encoders.images.convnets import SmallConvNet
from diffor.training.checkpoint import load_folder

ROOT = Path(__file__).parents[2]
TASK = ["--target", "price", "--preset", "fast", "--quiet"]
SEEDS = 3
PARTS = 3


@dataclass(frozen=True)
class Command:
    """A command in a folder that holds ``home``'s files; ``results`` reads what it has written, or fails.

    ``results`` maps names to contents that an uninterrupted run would have had, too; ``begin`` puts old outputs there.
    """

    words: tuple[str, ...]
    results: Callable[[Path], dict[str, object]]
    begin: Callable[[Path], object] = lambda folder: None


def run_well(words: Sequence[str], folder: Path) -> None:
    code = run_command(words, folder)
    assert code == 0, (folder / "said").read_text()[-3000:]


def begun(home: Path, folder: Path, name: str) -> Path:
    """A folder in which a command has everything that it needs, and old outputs."""
    shutil.copytree(home, folder, dirs_exist_ok=True)
    (folder / "said").unlink(missing_ok=True)
    COMMANDS[name].begin(folder)
    return folder


def hidden(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".*") if path.name != ".lock"]


def make_home(folder: Path) -> None:
    """Tables, pictures, weights of a network, and a fitted model."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"size": random.normal(size=600), "city": random.choice(["Oslo", "Rome"], 600)})
    table["price"] = table["size"] + random.normal(size=600)
    table.iloc[:120].to_csv(folder / "train.csv", index=False)
    table.to_csv(folder / "rows.csv", index=False)
    (folder / "in").mkdir()
    for part in range(PARTS):
        table.iloc[part::PARTS].to_parquet(folder / "in" / f"part-{part}.parquet", index=False)
    (folder / "faces").mkdir()
    for number in range(24):
        Image.fromarray(random.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(folder / "faces" / f"{number}.png")
    torch.manual_seed(0)
    torch.save(SmallConvNet().state_dict(), folder / "small.pt")
    run_well(["fit", "train.csv", *TASK, "--max-steps", "20", "--seed", "5", "--out", "model"], folder)


def models(*names: str) -> Callable[[Path], dict[str, object]]:
    def read(folder: Path) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in names:
            if (folder / name).exists():
                config, _ = load_folder(folder / name)
                notes = json.loads((folder / name / "cli.json").read_text())
                found[name] = (config["weights_sha256"], notes["target"])
        return found

    return read


def files(*names: str) -> Callable[[Path], dict[str, object]]:
    return lambda folder: {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def old_files(*names: str) -> Callable[[Path], None]:
    def begin(folder: Path) -> None:
        for name in names:
            (folder / name).write_text("old")

    return begin


def old_page_and_lines(folder: Path) -> None:
    """An old page, and lines of the development run for a new one."""
    (folder / "page.html").write_text("old")
    lines = (ROOT / "benchmarks" / "results" / "one_call.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[:100]))


def pages(folder: Path) -> dict[str, object]:
    """Whether the page is the old or a whole one; two runs draw the same, but say when."""
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert text == "old" or text.rstrip().endswith("</html>")
    return {"page.html": "old" if text == "old" else "new"}


def scored(folder: Path) -> dict[str, object]:
    """The answers of each input; what is there is whole."""
    outputs = (folder / "out").glob("[!.]*.parquet")
    found: dict[str, object] = {path.name: pd.read_parquet(path).to_csv() for path in outputs}
    if (folder / "out" / "_SUCCESS").exists():
        assert len(found) == PARTS
        found["_SUCCESS"] = json.loads((folder / "out" / "_SUCCESS").read_text())
    return found


def features(folder: Path) -> dict[str, object]:
    path = folder / "features.parquet"
    return {path.name: pd.read_parquet(path).to_csv()} if path.exists() else {}


def bench_lines(folder: Path) -> dict[str, object]:
    """The score of each cell, which has one line at most; a kill damages one line at most."""
    path = folder / "lines.jsonl"
    lines, damaged = read_lines(path) if path.exists() else ([], 0)
    assert damaged <= 1
    assert len({line["seed"] for line in lines}) == len(lines)
    return {str(line["seed"]): (line["status"], line["metrics"]["crps"]) for line in lines}


COMMANDS = {
    "fit": Command(("fit", "train.csv", *TASK, "--max-steps", "150", "--checkpoint", "run", "--force",
                    "--out", "fitted"), models("fitted")),
    "refit": Command(("fit", "train.csv", *TASK, "--max-steps", "10", "--force", "--out", "model"), models("model")),
    "distill": Command(("distill", "model", "rows.csv", "--max-steps", "20", "--quiet", "--force", "--out", "student"),
                       models("model", "student")),
    "predict csv": Command(("predict", "model", "rows.csv", "--coverage", "0.9", "--force", "--out", "a.csv"),
                           files("a.csv"), old_files("a.csv")),
    "predict parquet": Command(("predict", "model", "rows.csv", "--force", "--out", "a.parquet"),
                               files("a.parquet"), old_files("a.parquet")),
    "score": Command(("score", "model", "in/*.parquet", "--workers", "2", "--quiet", "--out", "out"), scored),
    "evaluate": Command(("evaluate", "model", "rows.csv", "--force", "--report", "page.html"), pages,
                        old_files("page.html")),
    "report": Command(("report", "results.jsonl", "--force", "--out", "page.html"), pages, old_page_and_lines),
    "export": Command(("export", "model", "--force", "--out", "model.onnx"), files("model.onnx"),
                      old_files("model.onnx")),
    "embed": Command(("embed", "faces", "--encoder", "small", "--weights", "small.pt", "--side", "16", "--workers",
                      "0", "--quiet", "--out", "features.parquet"), features),
    "bench": Command(("bench", "--datasets", "diabetes", "--methods", "constant", "--max-train-rows", "50", "--seeds",
                      str(SEEDS), "--jobs", "2", "--out", "lines.jsonl"), bench_lines),
    "tune": Command(("tune", "train.csv", *TASK, "--max-steps", "10", "--trials", "3", "--study", "study.db",
                     "--force", "--out", "tuned"), models("tuned")),
}  # fmt: skip
