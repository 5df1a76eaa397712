"""Whatever a stranger has done to a model's folder, it loads to the same answers or says what is wrong with it.

A folder whose digests were not made anew must not answer otherwise. One that was signed again may, as any model of a
stranger may answer what it likes, but it neither runs code, nor ends or fills the process, nor fails in another way.
"""

import collections
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from folder_models import save_models
from folders import make_case

CASES = 240
MEMORY = 6 * 2**30
"""Bytes of address space that loading may take, of which a process with torch has about a fifth by itself."""
SECONDS = 60
"""Nothing that the judge does takes a tenth of it, also on a busy machine."""


class Judge:
    """A process that loads folders; a new one where the last was ended by what it loaded."""

    def __init__(self, base: Path) -> None:
        self.base, self.process = base, None

    def start(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("folder_judge.py")), str(self.base), str(MEMORY)]
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        # Threads that wait without rest, on a busy machine, take many times as long.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
        }
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True).start()
        assert json.loads(self.lines.get(timeout=10 * SECONDS))["ready"]

    @staticmethod
    def _read(stream, lines) -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    def ask(self, folder: Path, model: str) -> dict:
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps({"folder": str(folder), "model": model}) + "\n")
        self.process.stdin.flush()
        try:
            line = self.lines.get(timeout=SECONDS)
        except queue.Empty:
            line = None
        if line:
            return json.loads(line)
        self.stop()
        return {"verdict": "raw", "message": "took too long" if line is None else "ended the process"}

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_models(folder)
    return folder


@pytest.fixture(scope="module")
def judge(base):
    judge = Judge(base)
    yield judge
    judge.stop()


def names_of(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir() if path.is_dir())


def test_folders_as_they_were_saved_answer_the_same(base, judge):
    assert len(names_of(base)) >= 10
    for name in names_of(base):
        assert judge.ask(base / name, name)["verdict"] == "same"


def test_changed_folders_load_to_the_same_answers_or_say_what_is_wrong(
    base, judge, tmp_path, hostile_scale, record_property
):
    counts, faults = collections.Counter(), []
    for seed in range(CASES * hostile_scale):
        place = tmp_path / str(seed)
        case = make_case(seed, base, names_of(base), place)
        found = judge.ask(place, case.model)
        is_fault = found["verdict"] == "raw" or (found["verdict"] not in ("refused", "same") and not case.is_signed)
        if found["verdict"] == "refused" and not (str(place) in found["message"] and len(found["message"]) < 2000):
            is_fault = True  # a message names the folder, and is one to be read
        if is_fault:
            faults.append(f"seed {seed}, {case.model}, signed={case.is_signed}: {case.told}: {found}")
        counts[found["verdict"]] += 1
        shutil.rmtree(place)
    record_property("verdicts", dict(counts))
    assert not faults, f"{len(faults)} of {sum(counts.values())} folders: " + "\n".join(faults[:20])
    assert counts["refused"] > 0.4 * sum(counts.values())  # most changes are of the kind that must be refused
    assert counts["same"] + counts["other answers"] > 0  # and some are harmless
