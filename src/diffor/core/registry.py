"""Tables that other packages add to, by entry points of their distributions (docs/extending.md)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

Thing = TypeVar("Thing")


class Registry(MutableMapping[str, Thing]):
    """A table by name; the first time that it is read, what installed packages register in a group is added.

    What cannot be imported, is no such thing or has the name of another one is left out, with a warning that names it:
    the fault of one package is no fault of the others. Nothing is looked for at import, so that a package may import
    from this one what it derives from.

    Parameters
    ----------
    group : str
        Name of the entry points' group, such as ``diffor.methods``.
    own : mapping
        What this package has itself.
    check : callable
        ``check(name, thing)`` says what is wrong with a registered thing; empty where nothing is.

    Examples
    --------
    >>> table = Registry("diffor.examples", {"one": 1}, lambda name, thing: "")
    >>> list(table), table["one"], list(table.registered)
    (['one'], 1, [])
    """

    def __init__(self, group: str, own: Mapping[str, Thing], check: Callable[[str, object], str]) -> None:
        self._group, self._things, self._check = group, dict(own), check
        self._registered: dict[str, str] | None = None

    @property
    def registered(self) -> dict[str, str]:
        """The distribution that registered each thing from outside, by the thing's name."""
        if self._registered is None:
            self._registered = {}  # before anything is imported, which may read this table in turn
            for entry in entry_points(group=self._group):
                self._add(entry, self._registered)
        return self._registered

    def _add(self, entry: EntryPoint, registered: dict[str, str]) -> None:
        source = "an unknown package" if entry.dist is None else str(entry.dist.metadata["Name"])
        if entry.name in self._things:
            fault = f"the name is taken by {registered.get(entry.name, 'diffor itself')}; rename it"
        else:
            try:
                thing = entry.load()
                fault = self._check(entry.name, thing)
            except Exception as error:  # whatever strangers' modules raise while they are imported
                fault = f"{type(error).__name__}: {error}"
        if fault:
            warnings.warn(
                f"{entry.name!r} of {source} ({self._group}, {entry.value}) cannot be used: {fault}", stacklevel=4
            )
            return
        self._things[entry.name], registered[entry.name] = thing, source

    def _read(self) -> dict[str, Thing]:
        _ = self.registered
        return self._things

    def __getitem__(self, name: str) -> Thing:
        return self._read()[name]

    def __setitem__(self, name: str, thing: Thing) -> None:
        self._read()[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"Registry({self._group!r}, {list(self._things)})"
