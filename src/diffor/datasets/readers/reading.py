"""Finding a data set's files below a folder, and saying what was read, what was dropped and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffor.datasets.samples import Dataset, Samples
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
    """What reading a data set met: the files that were used, the rows they hold, and the rows dropped by reason."""

    files: list[Path]
    n_read: int
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def n_kept(self) -> int:
        """Rows that are left.

        >>> ReadReport([], 10, {"image missing": 3}).n_kept
        7
        """
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

    def fail(self, error: Exception) -> CheckReport:
        """The report of files that cannot be read."""
        return CheckReport([*self.errors, str(error)], self.warnings, isinstance(error, FileNotFoundError))


Survey = Callable[..., tuple[Samples, ReadReport]]
"""Reads a data set below a root and says what it met."""


@dataclass(frozen=True, kw_only=True)
class PublishedSet(Dataset):
    """A data set whose files come from its owners: how to get them, how to read them and how to check them."""

    size: str
    licence: str
    obtain: str
    """What to do to get the files."""
    survey: Survey
    """``survey(root, **options)`` gives the samples and a report of what was read and dropped."""
    check: Callable[..., CheckReport]
    """``check(root)`` compares the files with what is published of them and gives a report."""
    glance: Callable[..., CheckReport]
    """The same without reading large files or decoding images."""
    marks: tuple[str, ...]
    """Files below the root which show that there is something, even if it cannot be read."""


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(map(str, choices))}, but got {name}={value!r}")


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


def folders_below(root: Path, n_levels: int = SEARCH_LEVELS) -> Iterator[Path]:
    """The root and the folders below it, the nearest first and each level in the order of names."""
    level = [root]
    for _ in range(n_levels + 1):
        yield from level
        level = sorted(Path(entry.path) for folder in level for entry in os.scandir(folder) if entry.is_dir())


def find_below(root: Path, *relatives: str) -> Path | None:
    """The nearest file below the root with one of these relative paths; None where there is none."""
    for folder in folders_below(root):
        for relative in relatives:
            if (folder / relative).is_file():
                return folder / relative
    return None


def need_below(root: Path, name: str, obtain: str, *relatives: str) -> Path:
    """The nearest file below the root with one of these relative paths, which must exist."""
    path = find_below(root, *relatives)
    if path is None:
        raise FileNotFoundError(
            f"{name} needs the file {' or '.join(relatives)}, but {root} holds none, down to {SEARCH_LEVELS} "
            f"folders deep. {obtain}".rstrip()
        )
    return path


def refuse_stand_in(path: Path) -> None:
    """Refuse what downloads leave in place of a data file: nothing, a web page, a pointer."""
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        raise UserError(f"{path} must hold data, but it is empty; fetch the file again")
    for beginning, cause in _STAND_INS.items():
        if start.startswith(beginning):
            raise UserError(f"{path} must hold data, but it is {cause}")
