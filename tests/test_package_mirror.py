"""Tests stand where what they test stands: tests/a/test_b.py is about src/diffor/a/b, and every room has some."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "diffor", ROOT / "tests"
ELSEWHERE = {"docs", "examples", "benchmarks", "hostile", "support"}
"""Tests of what does not stand in the package, or of all of it at once, and what tests share."""


def is_about(test: Path) -> bool:
    """Whether the package has the module, or the folder, that a test file names, alone or before an aspect of it."""
    folder, words = SOURCE / test.parent.relative_to(TESTS), test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    return any((folder / f"{name}.py").exists() or (folder / name).is_dir() for name in names)


def test_every_test_stands_where_its_module_does():
    tests = [path for path in TESTS.rglob("test_*.py") if path.relative_to(TESTS).parts[0] not in ELSEWHERE]
    strays = [str(path.relative_to(ROOT)) for path in tests if not is_about(path) and "package" not in path.stem]
    assert len(tests) > 100
    assert strays == []


def test_every_room_has_tests():
    rooms = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    untested = [
        room for room in rooms if not list(TESTS.glob(f"{room}/**/test_*.py")) + list(TESTS.glob(f"test_{room}*"))
    ]
    assert len(rooms) > 10
    assert untested == []
