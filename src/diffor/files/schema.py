"""What JSON values may be: small rules that say where a value breaks them, and what it should have been.

A rule checks a value in place and returns nothing. Nothing is converted: 1.0 is no whole number and true is no number.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from diffor.errors import UserError


class MisfitError(UserError):
    """A value breaks a rule; the message says where, which, and what stands there."""


class Rule(ABC):
    """What a value may be."""

    @abstractmethod
    def describe(self) -> str:
        """What a value must be, in words."""

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether the value by itself, apart from what it holds, is right."""

    def check(self, value: Any, where: str) -> None:
        """Refuse a value that is not right; ``where`` names its place."""
        if not self.fits(value):
            raise MisfitError(f"{where} must be {self.describe()}, but is {_short(value)}")


@dataclass(frozen=True)
class Flag(Rule):
    """True or false."""

    def describe(self) -> str:
        """The rule in words."""
        return "true or false"

    def fits(self, value: Any) -> bool:
        """Whether it is one of the two."""
        return type(value) is bool


@dataclass(frozen=True)
class Nothing(Rule):
    """Null."""

    def describe(self) -> str:
        """The rule in words."""
        return "null"

    def fits(self, value: Any) -> bool:
        """Whether it is null."""
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

    def describe(self) -> str:
        """The rule in words."""
        return f"a whole number from {self.low} to {self.high}"

    def fits(self, value: Any) -> bool:
        """Whether it lies in the range."""
        return type(value) is int and self.low <= value <= self.high


@dataclass(frozen=True)
class Number(Rule):
    """A number in a range, not NaN; infinite only where the range is."""

    low: float = -1.7e308
    high: float = 1.7e308

    def describe(self) -> str:
        """The rule in words."""
        return "a finite number" if self == Number() else f"a number from {self.low:g} to {self.high:g}"

    def fits(self, value: Any) -> bool:
        """Whether it lies in the range."""
        return type(value) in (int, float) and self.low <= value <= self.high  # which NaN is not


@dataclass(frozen=True)
class Figure(Rule):
    """Any number, also none: what was measured may be NaN or infinite."""

    def describe(self) -> str:
        """The rule in words."""
        return "a number"

    def fits(self, value: Any) -> bool:
        """Whether it is a number."""
        return type(value) in (int, float)


@dataclass(frozen=True)
class Text(Rule):
    """Text of bounded length, one of those ``known`` or of a ``pattern`` where these are given."""

    most: int = 100_000
    known: Collection[str] = ()
    pattern: str = ""

    def describe(self) -> str:
        """The rule in words."""
        if self.known:
            return f"one of {', '.join(self.known)}"
        return f"text like {self.pattern}" if self.pattern else f"text of at most {self.most} characters"

    def fits(self, value: Any) -> bool:
        """Whether it is such text."""
        if not isinstance(value, str) or len(value) > self.most:
            return False
        return value in self.known if self.known else re.fullmatch(self.pattern or "(?s:.*)", value) is not None


@dataclass(frozen=True)
class Either(Rule):
    """One of several rules."""

    rules: tuple[Rule, ...]

    def describe(self) -> str:
        """The rule in words."""
        return " or ".join(rule.describe() for rule in self.rules)

    def fits(self, value: Any) -> bool:
        """Whether it fits one of them by itself."""
        return any(rule.fits(value) for rule in self.rules)

    def check(self, value: Any, where: str) -> None:
        """Refuse what fits none; what fits one by itself is checked by it to the bottom."""
        for rule in self.rules:
            if rule.fits(value):
                return rule.check(value, where)
        return super().check(value, where)


@dataclass(frozen=True)
class ListOf(Rule):
    """A list (or tuple) of values of one kind."""

    rule: Rule
    least: int = 0
    most: int = 100_000_000

    def describe(self) -> str:
        """The rule in words."""
        return f"a list of {self.least} to {self.most} values"

    def fits(self, value: Any) -> bool:
        """Whether it is a list of such a length."""
        return isinstance(value, (list, tuple)) and self.least <= len(value) <= self.most

    def check(self, value: Any, where: str) -> None:
        """Check the list and each of its values."""
        super().check(value, where)
        for place, entry in enumerate(value):
            self.rule.check(entry, f"{where}[{place}]")


@dataclass(frozen=True)
class Record(Rule):
    """Named values, each with a rule of its own; those of ``optional`` may be left out."""

    rules: Mapping[str, Rule]
    optional: Mapping[str, Rule] = field(default_factory=dict)
    open_to_others: bool = False
    """Whether there may be others, which are not looked at."""

    def describe(self) -> str:
        """The rule in words."""
        return f"an object with {', '.join(self.rules)}" if self.rules else "an object"

    def fits(self, value: Any) -> bool:
        """Whether it is an object."""
        return isinstance(value, dict)

    def check(self, value: Any, where: str) -> None:
        """Check names and values."""
        super().check(value, where)
        prefix = f"{where}." if where else ""
        for name in self.rules:
            if name not in value:
                raise MisfitError(f"{prefix}{name} must be there, but is missing")
        for name, entry in value.items():
            rule = self.rules.get(name) or self.optional.get(name)
            if rule is None and self.open_to_others:
                continue
            if rule is None:
                raise MisfitError(f"{prefix}{name[:80]} is not known here, but is {_short(entry)}")
            rule.check(entry, f"{prefix}{name}")


@dataclass(frozen=True)
class MapOf(Rule):
    """Values of one kind by any names."""

    rule: Rule

    def describe(self) -> str:
        """The rule in words."""
        return "an object"

    def fits(self, value: Any) -> bool:
        """Whether it is an object."""
        return isinstance(value, dict)

    def check(self, value: Any, where: str) -> None:
        """Check each value."""
        super().check(value, where)
        for name, entry in value.items():
            self.rule.check(entry, f"{where}.{name[:80]}")


def optional(*rules: Rule) -> Either:
    """One of the rules, or null.

    >>> optional(Whole(1, 2)).describe()
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
