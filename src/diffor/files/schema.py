"""What JSON values may be: small rules that say where a value breaks them, and what it should have been.

A rule checks a value in place and returns nothing. Nothing is converted: 1.0 is no whole number and true is no number.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from diffor.errors import UserError


class MisfitError(UserError):
    """A value breaks a rule; the message says where, which, and what stands there."""


class Rule(ABC):
    """What a value may be: as text, in words; ``value in rule`` where it fits by itself, apart from what it holds."""

    def check(self, value: Any, where: str) -> None:
        """Refuse a value that is not right; ``where`` names its place."""
        if value not in self:
            raise MisfitError(f"{where} must be {self}, but is {_short(value)}")
        for rule, entry, place in self._parts(value, where):
            rule.check(entry, place)

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def __contains__(self, value: Any) -> bool: ...

    def _parts(self, value: Any, where: str) -> Iterable[tuple[Rule, Any, str]]:
        """What the value holds and where, each with its rule; most hold nothing."""
        return ()


@dataclass(frozen=True)
class Flag(Rule):
    """True or false."""

    def __str__(self) -> str:
        return "true or false"

    def __contains__(self, value: Any) -> bool:
        return type(value) is bool


@dataclass(frozen=True)
class Nothing(Rule):
    """Null."""

    def __str__(self) -> str:
        return "null"

    def __contains__(self, value: Any) -> bool:
        return value is None


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number in a range.

    >>> Whole(1, 10).check(True, "n_folds")
    Traceback (most recent call last):
    diffor.files.schema.MisfitError: n_folds must be a whole number from 1 to 10, but is True
    """

    low: int
    high: int

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def __contains__(self, value: Any) -> bool:
        return type(value) is int and self.low <= value <= self.high


@dataclass(frozen=True)
class Number(Rule):
    """A number in a range, not NaN; infinite only where the range is."""

    low: float = -1.7e308
    high: float = 1.7e308

    def __str__(self) -> str:
        return "a finite number" if self == Number() else f"a number from {self.low:g} to {self.high:g}"

    def __contains__(self, value: Any) -> bool:
        return type(value) in (int, float) and self.low <= value <= self.high  # which NaN is not


@dataclass(frozen=True)
class Figure(Rule):
    """Any number, also none: what was measured may be NaN or infinite."""

    def __str__(self) -> str:
        return "a number"

    def __contains__(self, value: Any) -> bool:
        return type(value) in (int, float)


@dataclass(frozen=True)
class Text(Rule):
    """Text of bounded length, one of those ``known`` or of a ``pattern`` where these are given."""

    most: int = 100_000
    known: Collection[str] = ()
    pattern: str = ""

    def __str__(self) -> str:
        if self.known:
            return f"one of {', '.join(self.known)}"
        return f"text like {self.pattern}" if self.pattern else f"text of at most {self.most} characters"

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, str) or len(value) > self.most:
            return False
        return value in self.known if self.known else re.fullmatch(self.pattern or "(?s:.*)", value) is not None


@dataclass(frozen=True)
class Either(Rule):
    """One of several rules: what fits one by itself is checked by it to the bottom."""

    rules: tuple[Rule, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.rules))

    def __contains__(self, value: Any) -> bool:
        return any(value in rule for rule in self.rules)

    def _parts(self, value: Any, where: str) -> Iterable[tuple[Rule, Any, str]]:
        return [(next(rule for rule in self.rules if value in rule), value, where)]


@dataclass(frozen=True)
class ListOf(Rule):
    """A list (or tuple) of values of one kind."""

    rule: Rule
    least: int = 0
    most: int = 100_000_000

    def __str__(self) -> str:
        return f"a list of {self.least} to {self.most} values"

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, (list, tuple)) and self.least <= len(value) <= self.most

    def _parts(self, value: Any, where: str) -> Iterable[tuple[Rule, Any, str]]:
        return ((self.rule, entry, f"{where}[{place}]") for place, entry in enumerate(value))


@dataclass(frozen=True)
class Record(Rule):
    """Named values, each with a rule of its own; those of ``optional`` may be left out."""

    rules: Mapping[str, Rule]
    optional: Mapping[str, Rule] = field(default_factory=dict)
    open_to_others: bool = False
    """Whether there may be others, which are not looked at."""

    def __str__(self) -> str:
        return f"an object with {', '.join(self.rules)}" if self.rules else "an object"

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, dict)

    def _parts(self, value: Any, where: str) -> Iterable[tuple[Rule, Any, str]]:
        prefix = f"{where}." if where else ""
        for name in self.rules:
            if name not in value:
                raise MisfitError(f"{prefix}{name} must be there, but is missing")
        for name, entry in value.items():
            rule = self.rules.get(name) or self.optional.get(name)
            if rule is not None:
                yield rule, entry, f"{prefix}{name}"
            elif not self.open_to_others:
                raise MisfitError(f"{prefix}{name[:80]} is not known here, but is {_short(entry)}")


@dataclass(frozen=True)
class MapOf(Rule):
    """Values of one kind by any names."""

    rule: Rule

    def __str__(self) -> str:
        return "an object"

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, dict)

    def _parts(self, value: Any, where: str) -> Iterable[tuple[Rule, Any, str]]:
        return ((self.rule, entry, f"{where}.{name[:80]}") for name, entry in value.items())


def optional(*rules: Rule) -> Either:
    """One of the rules, or null.

    >>> str(optional(Whole(1, 2)))
    'a whole number from 1 to 2 or null'
    """
    return Either((*rules, Nothing()))


def _short(value: Any) -> str:
    """A value as it is shown in a message."""
    if isinstance(value, (dict, list, tuple)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if type(value) is int and value.bit_length() > 200:
        return "a number of very many digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
