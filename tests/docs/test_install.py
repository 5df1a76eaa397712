"""What a newcomer installs: a wheel and an sdist that are built, checked, installed into an empty environment and used.

Marked ``install``: it needs a package index with torch, and about a minute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

for package in ("build", "twine"):
    pytest.importorskip(package, reason=f"{package} is an optional extra")

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.install


def run(*words: str | Path, folder: Path | None = None) -> str:
    """What a process prints, which must end well."""
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist from which the wheel was built."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


def test_wheel_and_sdist_are_whole(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    said = run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    assert said.count("PASSED") == 2
    names = zipfile.ZipFile(wheel).namelist()
    sources = [path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")]
    assert set(sources) <= set(names)
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    assert sdist.stat().st_size < 5e6


def test_the_wheel_works_in_an_empty_environment(dist: Path, tmp_path: Path) -> None:
    place = tmp_path / "env"
    run(sys.executable, "-m", "venv", place)
    python = place / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "readme.py").write_text(block[1] + "import diffor\nprint(diffor.__file__, len(point), len(low))\n")
    said = run(python, "readme.py", folder=tmp_path).split()
    assert Path(said[0]).is_relative_to(place)
    assert said[1:] == ["111", "111"]
    assert run(place / "bin" / "diffor", "--version").startswith("diffor ")
    assert "numpy" in run(python, "-m", "pip", "list")
    assert "matplotlib" not in run(python, "-m", "pip", "list")  # figures are an extra: the core works without
