"""Finding a data set's files below a folder, and saying what was read, what was dropped and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diffor.errors import UserError

ENVIRONMENT_VARIABLE = "DIFFOR_DATA"
"""Names the folder of the data sets where no root is passed."""
CACHE_VARIABLE = "DIFFOR_CACHE"
"""Names the folder of what is kept between runs, where it is not to lie below the root."""
CACHE_FOLDER = ".diffor-cache"
SEARCH_LEVELS = 3
"""How far below the root files are looked for: people unpack archives into folders of their own."""

_STAND_INS = {
    b"<": "a web page or XML, not the data; download it in a browser, where the host may ask for a confirmation",
    b"version https://git-lfs": "a Git LFS pointer, not the data; fetch the file itself with `git lfs pull`",
}


@dataclass
class ReadReport:
    """What reading a data set met: the files that were used, the rows they hold, and the rows dropped by reason.

    ``notes`` say what else its figures depend on, such as files that are missing.
    """

    files: list[Path]
    n_read: int
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_kept(self) -> int:
        """Rows that are left."""
        return self.n_read - sum(self.dropped.values())

    def drop(self, reasons: Mapping[str, int]) -> None:
        """Count rows that are dropped."""
        for reason, count in reasons.items():
            if count:
                self.dropped[reason] = self.dropped.get(reason, 0) + count


@dataclass
class CheckReport:
    """What a check found: ``errors`` make the files wrong or unusable, ``warnings`` are only worth knowing."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_absent: bool = False
    """Whether there is nothing to check: the first file is missing."""

    def add(self, complaint: str | None, is_error: bool = True) -> None:
        """Note what is wrong, if anything is."""
        if complaint is not None:
            (self.errors if is_error else self.warnings).append(complaint)

    @classmethod
    def of(cls, error: Exception) -> CheckReport:
        """The report of files that cannot be read."""
        return cls([str(error)], is_absent=isinstance(error, FileNotFoundError))


@dataclass(frozen=True)
class Place:
    """The folder below which a data set's files lie, and what to do to get them."""

    root: Path
    name: str
    obtain: str = ""

    def find(self, *relatives: str) -> Path | None:
        """The nearest file with one of these relative paths; None where there is none."""
        return find_below(self.root, *relatives)

    def need(self, *relatives: str) -> Path:
        """The nearest file with one of these relative paths, which must exist."""
        path = self.find(*relatives)
        if path is None:
            raise self.lacks(f"the file {' or '.join(relatives)}")
        return path

    def lacks(self, what: str) -> FileNotFoundError:
        """The error that says what is missing."""
        return FileNotFoundError(
            f"{self.name} needs {what}, but {self.root} holds none, down to {SEARCH_LEVELS} folders deep. {self.obtain}"
        )


def data_root(root: str | Path | None, name: str, obtain: str = "") -> Path:
    """The folder of the data: the root that was passed, else the one that the environment names."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE) if root is None else root
    cure = f"pass root, or set {ENVIRONMENT_VARIABLE}, to the folder that holds its files. {obtain}".rstrip()
    if not chosen:
        raise UserError(f"{name} is read from files, but got root={root!r}; {cure}")
    if not Path(chosen).is_dir():
        raise FileNotFoundError(f"{name} is read from files below a folder, but {chosen} is none; {cure}")
    return Path(chosen).absolute()


def cache_folder(root: Path) -> Path:
    """Where what was read or computed is kept: as the environment says, or below the root."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else root / CACHE_FOLDER


def folders_below(root: Path) -> Iterator[Path]:
    """The root and the folders below it, the nearest first and each level in the order of names."""
    level = [root]
    for _ in range(SEARCH_LEVELS + 1):
        yield from level
        level = sorted(Path(entry.path) for folder in level for entry in os.scandir(folder) if entry.is_dir())


def find_below(root: Path, *relatives: str) -> Path | None:
    """The nearest file below the root with one of these relative paths; None where there is none."""
    paths = (folder / relative for folder in folders_below(root) for relative in relatives)
    return next((path for path in paths if path.is_file()), None)


def refuse_stand_in(path: Path) -> None:
    """Refuse what downloads leave in place of a data file: nothing, a web page, a pointer."""
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        raise UserError(f"{path} must hold data, but it is empty; fetch the file again")
    for beginning, cause in _STAND_INS.items():
        if start.startswith(beginning):
            raise UserError(f"{path} must hold data, but it is {cause}")
