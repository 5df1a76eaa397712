"""What is said about code and machine."""

import subprocess
import sys

from diffor.files import provenance
from diffor.files.provenance import peak_mib


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_and_its_changes(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert provenance.commit(package) is None
    git(tmp_path, "init", "-q")
    assert provenance.commit(package) is None  # inside a repository, but not of it
    git(tmp_path, "add", "package")
    git(tmp_path, "commit", "-q", "-m", "first")
    name = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    (tmp_path / "results.jsonl").write_text("beside the code")
    assert provenance.commit(package) == name
    (package / "__init__.py").write_text("x = 1")
    assert provenance.commit(package) == f"{name}+changes"


def test_versions_of_what_is_installed():
    found = provenance.versions([None, "matplotlib", "no-such-package"])
    assert {"python", "diffor", "numpy", "torch"} <= found.keys()
    assert "no-such-package" not in found


def test_the_machine_has_a_name_and_cores():
    assert "cores" in provenance.machine()


def test_commands_carry_no_folders_of_this_machine():
    words = ["bench", "/home/x/run.toml", "--root=/data/here", "--out", "lines/a b.jsonl"]
    assert provenance.command_line(words) == "diffor bench run.toml --root=ROOT --out 'lines/a b.jsonl'"


def test_figures_say_where_they_come_from():
    found = provenance.origin("python benchmarks/latency.py", ["--only", "one row", "/data/faces"], ["matplotlib"])
    assert found["command"] == "python benchmarks/latency.py --only 'one row' faces"
    assert found.keys() == {"command", "when", "commit", "machine", "load_before", "versions"}
    assert found["versions"] == provenance.versions(["matplotlib"])


def test_peak_memory_is_that_of_the_process_alone():
    held = bytearray(400 * 2**20)  # which a child would inherit by getrusage
    assert peak_mib() > len(held) / 2**20
    code = "from diffor.files.provenance import peak_mib; print(peak_mib())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 < float(done.stdout) < 300


def test_a_process_that_is_gone_holds_nothing():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert peak_mib(child.pid) == 0.0
