"""Which tests belong to what changed: ``python tests/support/changed_tests.py BASE`` prints their files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDEST = 40
"""With more test files than this, the whole suite is the better choice, and the nearest of them are run."""


def changed_files(base: str) -> list[str]:
    """Files that differ from a commit, with those that git does not know yet."""
    commands = (["git", "diff", "--name-only", base], ["git", "ls-files", "--others", "--exclude-standard"])
    listed = [subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout for words in commands]
    return sorted({line for text in listed for line in text.splitlines()})


def tests_of(changed: Iterable[str]) -> list[str]:
    """Test files that changed or that are about modules that did.

    >>> tests_of(["src/diffor/core/table.py", "docs/export.md"])
    ['tests/core/test_table.py']
    """
    found: dict[str, None] = {}
    for name in changed:
        path = Path(name)
        if path.parts[0] == "tests" and path.stem.startswith("test_"):
            candidates = [path]
        elif path.parts[:2] == ("src", "diffor") and path.suffix == ".py":
            folder = Path("tests", *path.parts[2:-1])
            stem = path.parent.name if path.stem == "__init__" else path.stem
            folder = folder.parent if path.stem == "__init__" else folder
            candidates = sorted(one.relative_to(ROOT) for one in (ROOT / folder).glob(f"test_{stem}*.py") if stem)
        else:
            continue
        found |= {str(one): None for one in candidates if (ROOT / one).exists()}
    return list(found)[:WIDEST]


if __name__ == "__main__":
    print("\n".join(tests_of(changed_files(sys.argv[1]))))
