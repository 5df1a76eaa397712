"""Odd terminals: pipes that close, disks behind a stream, languages without letters, no streams at all."""

import os
import subprocess
import sys

import pandas as pd
import pytest
from kills_commands import run_well

LANGUAGES = {
    "C": {"LC_ALL": "C"},
    "bare C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "none": {"LC_ALL": "", "LANG": ""},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin": {"PYTHONIOENCODING": "latin-1"},
}


@pytest.fixture(scope="module")
def place(hostile_home, tmp_path_factory):
    """A folder with a model whose categories have letters that are not ASCII, and more rows than a pipe holds."""
    folder = tmp_path_factory.mktemp("terminals")
    table = pd.read_csv(hostile_home / "train.csv").replace({"city": {"Rome": "Zürich"}})
    table.to_csv(folder / "Zürich.csv", index=False)
    pd.concat([table] * 100).to_csv(folder / "many.csv", index=False)
    words = ["fit", "Zürich.csv", "--target", "city", "--grades", "Oslo,Zürich", "--preset", "fast", "--max-steps", "5"]
    run_well([*words, "--out", "Stadt-Ü"], folder)
    run_well(["predict", "Stadt-Ü", "Zürich.csv", "--out", "usual.csv"], folder)
    return folder


def start(words, place, environment=None, **streams):
    return subprocess.Popen([sys.executable, "-m", "diffor", *words], cwd=place, stderr=subprocess.PIPE,
                            env={**os.environ, **(environment or {})}, **streams)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_table_has_the_same_bytes_in_any_language(language, place):
    words = ["predict", "Stadt-Ü", "Zürich.csv", "--out", "-"]
    with start(words, place, LANGUAGES[language], stdout=subprocess.PIPE) as process:
        out, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, b"")
    assert out == (place / "usual.csv").read_bytes()
    assert "Zürich" in out.decode()


@pytest.mark.parametrize("language", ["ascii", "bare C"])
def test_what_is_said_needs_no_letters(language, place):
    words = ["evaluate", "Stadt-Ü", "Zürich.csv", "--report", f"page-{language[0]}.html"]
    with start(words, place, LANGUAGES[language], stdout=subprocess.PIPE) as process:
        out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert out.startswith(b"120 rows, target city")
    assert "Zürich" in (place / f"page-{language[0]}.html").read_text(encoding="utf-8")


def test_a_reader_that_has_had_enough_ends_it_quietly(place):
    with start(["predict", "Stadt-Ü", "many.csv", "--out", "-"], place, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"prediction,")
        process.stdout.close()
        assert process.wait(300) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a stream that is always full")
def test_a_stream_without_room_is_told_of_once(place):
    with open("/dev/full", "wb") as full, start(["methods"], place, stdout=full) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert errors.decode() == ("diffor: error: the output cannot be written: No space left on device; make room, allow "
                               "it, or choose another place\n")  # fmt: skip


def closed(*words):
    """A shell's line that runs a command without streams for output."""
    return ["sh", "-c", 'exec "$@" >&- 2>errors', "sh", sys.executable, "-m", "diffor", *words]


def test_answers_that_nobody_can_get_are_refused(place):
    assert subprocess.run(closed("predict", "Stadt-Ü", "Zürich.csv", "--out", "-"), cwd=place).returncode == 2
    said = "diffor: error: --out - needs a standard output, but it is closed; name a file\n"
    assert (place / "errors").read_text() == said


def test_files_are_written_right_without_any_stream(place):
    words = closed("predict", "Stadt-Ü", "Zürich.csv", "--out", "silent.csv")
    words[2] = words[2].replace("2>errors", "2>&- <&-")
    assert subprocess.run(words, cwd=place).returncode == 0
    assert (place / "silent.csv").read_bytes() == (place / "usual.csv").read_bytes()


@pytest.mark.parametrize(("data", "message"), [("-", "must be an existing file"), ("/dev/stdin", "must be a file")])
def test_standard_input_is_no_table(data, message, place):
    words = ["predict", "Stadt-Ü", data, "--out", "-"]
    with start(words, place, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        out, errors = process.communicate((place / "Zürich.csv").read_bytes(), timeout=300)
    assert (process.returncode, out) == (2, b"")
    assert message in errors.decode()
    assert errors.count(b"\n") == 1
