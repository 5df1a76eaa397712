"""What pages name: dotted names of the package, and tests of this tree."""

from __future__ import annotations

import ast
import importlib
from functools import cache, reduce
from pathlib import Path

ROOT = Path(__file__).parents[2]


def find(dotted: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    words = dotted.split(".")
    for count in range(len(words), 0, -1):
        try:
            module = importlib.import_module(".".join(words[:count]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, words[count:], module)
    raise AssertionError(f"no module of {dotted}")


@cache
def tests_in(path: str) -> frozenset[str]:
    """Names of the test functions of a file, also those of its classes."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name.startswith("test_")
    )


def test_exists(named: str) -> bool:
    """Whether ``tests/a/test_b.py`` or ``tests/a/test_b.py::test_c`` is there."""
    path, _, function = named.partition("::")
    return (ROOT / path).is_file() and (not function or function in tests_in(path))


test_exists.__test__ = False  # type: ignore[attr-defined]  # a question, not a test
