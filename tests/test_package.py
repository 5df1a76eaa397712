"""What a newcomer meets first: the package's names, its README, its start-up."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diffor
from diffor.estimators import api as estimators_api
from diffor.estimators.base import OrdinalEstimator

ROOT = Path(__file__).parents[1]


def test_every_public_name_exists_and_is_listed():
    assert all(getattr(diffor, name) is not None for name in diffor.__all__)
    assert set(dir(diffor)) == set(diffor.__all__)
    assert {"METHODS", "ENCODERS", "DATASETS", "METRICS"} <= set(diffor.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'diffor' has no attribute 'Regressor'"):
        _ = diffor.Regressor


def test_the_version_is_the_packages_and_the_citations():
    from importlib.metadata import version

    assert diffor.__version__ == version("diffor")
    assert f"version: {diffor.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_importing_the_package_imports_nothing_heavy():
    script = "import sys, diffor; print(sorted({'torch', 'pandas', 'sklearn', 'numpy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_the_readme_example_runs_and_is_ten_lines(tmp_path, monkeypatch):
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example.replace("random_state=0).fit", "random_state=0, max_steps=50).fit"), "README", "exec"), names)
    assert (names["low"] <= names["point"]).all()
    assert (names["point"] <= names["high"]).all()
    assert names["risk"].sum(axis=1) == pytest.approx(1)
    assert (tmp_path / "my_model" / "config.json").exists()


def test_the_readme_picture_exists():
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text(), re.DOTALL):
        assert (ROOT / picture).stat().st_size > 1000


def test_the_readme_is_read_in_a_minute_or_two():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 660
    (table,) = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(table.splitlines()) == 2 + 6
    every_figure = (ROOT / "docs" / "comparison.md").read_text()
    assert all(row in every_figure for row in table.splitlines()[2:])


def test_links_of_readme_and_docs_lead_somewhere():
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    for page in [*pages, *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)


def test_the_caption_says_what_the_picture_shows():
    picture = (ROOT / "docs" / "demo.svg").read_text()
    held, count, share = re.search(r"interval holds the truth: (\d+) of (\d+) \((\d+)%\)", picture).groups()
    for page in ("README.md", "docs/index.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert f"the 90 % intervals hold {held} of {count} new rows ({share} %)" in text
        least, most = map(int, re.search(r"A calibrated model would hold (\d+) to (\d+)", text).groups())
        assert least <= int(held) <= most, "say why, or draw it again"


def test_architecture_names_every_module():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for path in (ROOT / "src" / "diffor").glob("*.py"):
        if not path.name.startswith("__"):
            assert path.name in text, path.name


def test_the_paper_is_cited():
    assert (
        "A Unified Continuous Generative Framework for Universal Ordinal Regression"
        in (ROOT / "CITATION.cff").read_text()
    )


def test_the_page_on_citing_agrees_with_the_file_for_programs():
    page, cited = (ROOT / "docs" / "cite.md").read_text(), (ROOT / "CITATION.cff").read_text()
    authors = re.findall(r"family-names: (\w+), given-names: (\w+)", cited)
    assert len(authors) == 9
    written = " ".join(page.split())
    assert all(f"{family}, {given}" in written for family, given in authors)
    assert f"version = {{{diffor.__version__}}}" in written


FIT = """
import numpy as np
from diffor import DiffoRRegressor
model = DiffoRRegressor("fast", max_steps=20, verbose={verbose}).fit(np.arange(60.0)[:, None], np.arange(60.0))
"""


def output_on_a_terminal(script):
    """What a process writes to a real terminal."""
    import fcntl
    import os
    import pty
    import struct
    import termios

    inside, outside = pty.openpty()
    fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))  # a window of the usual size
    process = subprocess.Popen([sys.executable, "-c", script], stdout=outside, stderr=outside, stdin=outside)
    os.close(outside)
    text = b""
    try:
        while part := os.read(inside, 4096):
            text += part
    except OSError:  # the process has closed its end
        pass
    os.close(inside)
    assert process.wait() == 0
    return text.decode()


def test_progress_is_shown_on_a_terminal_only_and_not_if_silenced():
    assert re.search(r"fit: +\d+%.*20/20", output_on_a_terminal(FIT.format(verbose=1)))
    assert output_on_a_terminal(FIT.format(verbose=0)) == ""
    done = subprocess.run([sys.executable, "-c", FIT.format(verbose=1)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_nobody_outside_calls_what_estimators_keep_to_themselves():
    """Underscore methods of estimators are called on ``self`` and ``cls`` alone."""
    public = [kind for kind in vars(estimators_api).values() if inspect.isclass(kind)]
    kinds = {base for kind in public if issubclass(kind, OrdinalEstimator) for base in kind.__mro__}
    own = {name for kind in kinds if kind.__module__.startswith("diffor") for name in vars(kind)}
    private = {name for name in own if name.startswith("_") and not name.startswith("__")}
    assert len(private) > 5
    calls = [
        f"{path.name}:{node.lineno} {node.attr}"
        for path in Path(diffor.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]  # fmt: skip
    assert calls == []
