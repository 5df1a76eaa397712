"""What pages show is run: the Python blocks of a page in their order, with what they print, return and draw.

The site shows it below each block, and tests/docs/test_pages.py runs the same with few training steps. A block whose
first line is ``# pip install PACKAGE`` is another tool's: it is run where that package is installed.
"""

from __future__ import annotations

import ast
import contextlib
import html
import importlib.util
import io
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS = re.compile(r"# pip install ([\w-]+)")
FENCE_OF_COMMANDS = re.compile(r"^```(sh|text|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAMS = ("diffor", "torchrun", "python", "pip", "make", "git", "curl", "export")


@dataclass
class Shown:
    """What a block gave: text that it printed, HTML that stands for its last value, and whether it was run at all."""

    text: str = ""
    pictures: list[str] = field(default_factory=list)
    missing: str | None = None


def python_blocks(page: str) -> list[str]:
    """The Python blocks of a page of Markdown, in their order.

    >>> python_blocks("One\\n```python\\nprint(1)\\n```\\n")
    ['print(1)\\n']
    """
    return BLOCK.findall(page)


def command_lines(page: str) -> list[str]:
    """The commands of a page, without their comments; a line that ends in a backslash goes on in the next.

    Blocks without a language may hold other things, too: of these, lines that start with a program are commands.

    >>> command_lines("```sh\\ndiffor methods    # all\\n```\\n```\\nlocation / {\\n```\\n")
    ['diffor methods']
    """
    lines = []
    for fence, block in FENCE_OF_COMMANDS.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            bare = re.sub(r"(^|\s+)#.*", "", line).strip()
            if bare and (fence == "sh" or (fence == "" and bare.split(" ")[0] in PROGRAMS)):
                lines.append(bare)
    return lines


def missing_package(block: str) -> str | None:
    """The package of another tool that a block needs and that is not installed, if there is one."""
    found = NEEDS.match(block)
    if found is None or importlib.util.find_spec(found[1].replace("-", "_")) is not None:
        return None
    return found[1]


def run_block(block: str, names: dict[str, Any], where: str) -> Shown:
    """Run a block in the names of its page, as a notebook does: its last expression is shown, too."""
    missing = missing_package(block)
    if missing is not None:
        return Shown(missing=missing)
    tree = ast.parse(block)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    shown = Shown(out.getvalue())
    if hasattr(value, "get_figure"):
        shown.pictures.append(draw(value))
    elif hasattr(value, "_repr_html_") and value._repr_html_() is not None:
        shown.pictures.append(value._repr_html_())
    elif value is not None:
        shown.text += repr(value)
    return shown


def draw(axes: Any) -> str:
    """A figure as HTML, which says in words what its axes are."""
    from diffor.reports import plots

    words = html.escape(f"{axes.get_ylabel() or 'rows'} over {axes.get_xlabel() or 'values'}")
    return f'<figure role="img" aria-label="{words}">{plots.figure_svg(axes)}</figure>'


@contextlib.contextmanager
def empty_folder() -> Iterator[None]:
    """A folder of its own to work in: what pages write does not stay."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def run_page(page: str, where: str) -> list[Shown]:
    """Run all Python blocks of a page, each in the names that those before it have left."""
    names: dict[str, Any] = {"__name__": "page"}
    with empty_folder():
        return [run_block(block, names, f"{where}, block {k}") for k, block in enumerate(python_blocks(page))]
