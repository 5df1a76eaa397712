"""Every command line of README, CONTRIBUTING and docs is run, on small tables and with few steps.

What is only checked, because it takes hours, needs other machines or another user's files, stands in ``CHECKED``, with
the reason; the check is that its program knows every word of it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import FENCE_OF_COMMANDS, command_lines

from diffor.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): command_lines(path.read_text(encoding="utf-8"))
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
WITH_COMMANDS = [place for place, lines in PAGES.items() if lines and place != "docs/extending.md"]
"""The commands of extending.md name a method of that page, so test_extending.py runs them."""
CHECKED = {
    r"diffor bench --suite": "a suite takes hours: its cells are listed, not run; tests/cli/test_bench.py runs some",
    r"diffor reproduce": "minutes even in the quick size: tests/cli/test_reproduce.py runs them",
    r"diffor score .*--engine ray": "needs Ray, which is no part of the development environment: tests/serving has it",
    r"torchrun --nnodes": "needs several machines",
    r"git clone": "needs a network",
    r"curl": "its files are the reader's: tests/docs/test_serving.py sends requests to a real server",
    r"pip install": "test_install.py installs the package; here its extras must exist",
    r"make": "sets up environments: here make must know what to do",
}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def write_tables(folder: Path) -> None:
    """Files of every name that pages use."""
    random = np.random.default_rng(0)
    n = 160
    flats = pd.DataFrame({"size": random.uniform(20, 120, n).round(1), "rooms": random.integers(1, 6, n)})
    flats["city"] = random.choice(["Oslo", "Rome", "Bern"], n)
    flats["price"] = np.clip(3 * flats["size"] + 10 * flats["rooms"] + random.normal(0, 20, n), 0, 500).round(1)
    flats[:100].to_csv(folder / "flats.csv", index=False)
    flats["condition"] = np.array(["poor", "fair", "good"])[np.digitize(flats["price"], [150, 300])]
    for name, rows in {"train": flats[:100], "spare": flats[100:130], "test": flats[130:], "new": flats[130:]}.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    (folder / "in").mkdir()
    for part in range(2):
        rows = flats[130 + 15 * part : 145 + 15 * part].assign(id=np.arange(15) + 15 * part)
        rows.to_parquet(folder / "in" / f"part-{part}.parquet", index=False)
    write_views(folder, random)
    write_photos(folder)


def write_views(folder: Path, random: np.random.Generator) -> None:
    """Views of videos, as one table and as files."""
    n = 240
    views = pd.DataFrame({"user_id": random.integers(0, 20, n), "video_id": random.integers(0, 30, n)})
    views["length"] = random.uniform(10, 100, n).round(1)
    views["watched"] = (views["length"] * random.random(n)).round(2)
    views[:80].to_csv(folder / "views.csv", index=False)
    (folder / "data").mkdir()
    for part in range(2):
        views[120 * part :][:120].to_parquet(folder / "data" / f"part-{part}.parquet", row_group_size=20, index=False)


def write_photos(folder: Path) -> None:
    """Three pictures of noise."""
    image = pytest.importorskip("PIL.Image", reason="pillow is an optional extra")
    (folder / "photos").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 255, (40, 40, 3), dtype=np.uint8)
        image.fromarray(pixels).save(folder / "photos" / f"{number}.png")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Tables, a model of them, and results of a benchmark, for pages that go on from these."""
    for package in ("pyarrow", "matplotlib", "onnxruntime", "fastapi", "optuna"):
        pytest.importorskip(package, reason=f"{package} is an optional extra")
    folder = tmp_path_factory.mktemp("prepared")
    write_tables(folder)
    few = ["--preset", "fast", "--max-steps", "8", "--no-prior", "--quiet"]
    data, out = str(folder / "train.csv"), str(folder / "model")
    assert main(["fit", data, "--target", "price", "--drop", "condition", "--out", out, *few]) == 0
    shutil.copytree(folder / "model", folder / "streamed")
    shutil.copy(ROOT / "benchmarks" / "results" / "one_call.jsonl", folder / "results.jsonl")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.fixture
def workplace(prepared, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("place", WITH_COMMANDS)
def test_the_commands_of_a_page_run(place, workplace, few_steps, monkeypatch):
    for line in PAGES[place]:
        run_line(line, monkeypatch)


def run_line(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one line, or check it where it cannot be run."""
    monkeypatch.setattr(sys, "exit", lambda code=0: pytest.fail(f"{line} left with {code}"))
    if line.startswith("export "):
        name, value = line.removeprefix("export ").split("=", 1)
        shell = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", f"echo {value}"], capture_output=True, text=True, check=True, env=shell)
        monkeypatch.setenv(name, done.stdout.strip())
        assert len(done.stdout.strip()) > 10, line
        return
    for part in line.split(" && "):
        words = shlex.split(part)
        checked = any(re.match(pattern, part) for pattern in CHECKED)
        HANDLERS[words[0]](words, checked)


def make_way(words: list[str]) -> None:
    """Remove what an earlier command of the page wrote to the same place: readers choose one of several."""
    for option in ("--out", "--checkpoint"):
        place = Path(words[words.index(option) + 1]) if option in words else None
        if place is not None and place.is_dir():
            shutil.rmtree(place)
        elif place is not None:
            place.unlink(missing_ok=True)


def run_diffor(words: list[str], checked: bool) -> None:
    """A command of ours: in this process, but for servers, which run until they are told to stop."""
    arguments = words[1:]
    if checked and arguments[0] == "bench":
        assert main([*arguments, "--list"]) == 0, words
        return
    if checked:
        parse(arguments)
        return
    if arguments[0] == "serve":
        serve_once(arguments)
        return
    make_way(words)
    assert main([*arguments, *SHORTER.get(arguments[0], [])]) == 0, words


SHORTER = {
    "fit": ["--max-steps", "8", "--batch-size", "16", "--quiet"],
    "tune": ["--trials", "1", "--max-steps", "8", "--no-prior", "--quiet"],
    "distill": ["--max-steps", "8", "--quiet"],
    "score": ["--quiet"],
    "embed": ["--workers", "1", "--quiet"],
}
"""What makes a command short, where it takes long with its own words."""


def serve_once(arguments: list[str]) -> None:
    """A real server in a process of its own, on a free port, that is asked once."""
    import httpx

    from diffor.cli.main import _parse

    asked = _parse(arguments)
    further = [] if asked.host == "127.0.0.1" else ["--host", asked.host]
    token = os.environ.get("DIFFOR_TOKEN")
    command = [sys.executable, "-m", "diffor", "serve", asked.model, "--port", "0", *further]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"on http://\S+:(\d+)/", process.stdout.readline())
            assert found is not None, process.communicate()[1]
            address = f"http://127.0.0.1:{found[1]}"
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            assert httpx.get(f"{address}/health", timeout=60).json()["status"] == "ok"
            assert httpx.get(f"{address}/model", headers=headers, timeout=60).status_code == 200
        finally:
            process.terminate()
        process.communicate(timeout=60)


def parse(arguments: list[str]) -> None:
    """Let the command line read the words, without doing what they say."""
    from diffor.cli.main import _parse

    assert _parse(arguments).command == arguments[0]


def run_torchrun(words: list[str], checked: bool) -> None:
    """Two real processes instead of four; of several machines, what each of them would be asked."""
    inside = words[words.index("diffor") + 1 :]
    parse(inside)
    if checked:
        return
    make_way(words)
    number = words.index("--nproc-per-node") + 1
    launcher = [*words[1:number], "2", *words[number + 1 : words.index("-m")]]
    command = [*TORCHRUN, *launcher, "-m", "diffor", *inside, "--preset", "fast", *SHORTER["fit"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def run_python(words: list[str], checked: bool) -> None:
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


def check_pip(words: list[str], checked: bool) -> None:
    """Extras that are named must exist."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for one in words:
        found = re.fullmatch(r"(?:\.|diffor)\[([\w,]+)\]", one)
        for extra in found[1].split(",") if found else []:
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE), one


def check_make(words: list[str], checked: bool) -> None:
    done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check_nothing(words: list[str], checked: bool) -> None:
    assert checked, words


HANDLERS = {
    "diffor": run_diffor,
    "torchrun": run_torchrun,
    "python": run_python,
    "pip": check_pip,
    "make": check_make,
    "git": check_nothing,
    "cd": lambda words, checked: None,
    "curl": check_nothing,
}


def test_no_command_hides_from_the_test_above():
    for place in PAGES:
        text = (ROOT / place).read_text(encoding="utf-8")
        for fence, block in FENCE_OF_COMMANDS.findall(text):
            for line in block.splitlines():
                is_command = line.split(" ")[0] in HANDLERS
                assert not (is_command and fence == "text") or place == "docs/extending.md", (place, line)
    assert sum(map(len, PAGES.values())) > 50


@pytest.mark.parametrize("place", PAGES)
def test_commands_within_sentences_name_what_exists(place):
    text = (ROOT / place).read_text(encoding="utf-8")
    for code in re.findall(r"`(diffor [^`]+|torchrun [^`]+)`", text):
        words = " ".join(code.split()).split(" ")
        if words[0] != "diffor" or not re.fullmatch(r"[a-z]+", words[1]):
            continue
        options = [word for word in words[2:] if word.startswith("--")]
        help_text = subprocess_help(words[1])
        assert all(re.search(rf"{re.escape(option)}\b", help_text) for option in options), (place, code)


def subprocess_help(command: str, known: dict[str, str] = {}) -> str:  # noqa: B006 (asked once for each command)
    """What ``diffor COMMAND --help`` says."""
    if command not in known:
        from diffor.cli.main import _make_parser

        parsers = _make_parser()[1]
        assert command in parsers, command
        known[command] = parsers[command].format_help()
    return known[command]


def test_a_command_that_does_not_exist_is_found(monkeypatch, workplace, few_steps):
    with pytest.raises(AssertionError):
        run_line("diffor fit train.csv --target nothing --out other", monkeypatch)
    with pytest.raises(AssertionError):
        run_line("pip install '.[nothing]'", monkeypatch)
    with pytest.raises(AssertionError):
        run_line("make nothing", monkeypatch)
    with pytest.raises(KeyError):
        run_line("unheard-of program", monkeypatch)
