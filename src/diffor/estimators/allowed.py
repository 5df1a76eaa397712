"""What a parameter may be: kinds of values that tell whether one is among them, and say so for messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass
from typing import Any

import numpy as np

from diffor.errors import UserError, UserTypeError, did_you_mean
from diffor.files.schema import Either, Nothing, Rule

SHOWN = 80
"""Characters of a wrong value that a message shows."""


@dataclass(frozen=True)
class Number:
    """A number from ``low`` to ``high``, no boolean; without ``low`` itself where ``is_above``.

    >>> whole = Number(1, is_whole=True)
    >>> whole.holds(3), whole.holds(True), whole.holds(2.5), str(whole)
    (True, False, False, 'a whole number of at least 1')
    """

    low: float
    high: float = math.inf
    is_whole: bool = False
    is_above: bool = False

    def is_kind(self, value: Any) -> bool:
        """Whether the value is a number of this kind, whatever its size."""
        kinds = (int, np.integer) if self.is_whole else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))

    def holds(self, value: Any) -> bool:
        """Whether the value is one of these."""
        return self.is_kind(value) and self.low <= value <= self.high and not (self.is_above and value == self.low)

    def __str__(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        above = f"above {self.low}" if self.is_above else f"of at least {self.low}"
        if self.high == math.inf:
            return f"{kind} {above}"
        return f"{kind} {above} and at most {self.high}" if self.is_above else f"{kind} from {self.low} to {self.high}"


@dataclass(frozen=True)
class Word:
    """One of some words or other fixed values; those of a mapping are its keys.

    >>> str(Word(("fast", "accurate"))), Word((-1,)).holds(True)
    ('fast, accurate', False)
    """

    options: Iterable[Any]

    def is_kind(self, value: Any) -> bool:
        """Whether the value is of a type that is among the options."""
        return any(type(value) is type(option) for option in self.options)

    def holds(self, value: Any) -> bool:
        """Whether the value is one of these."""
        return self.is_kind(value) and value in self.options

    def __str__(self) -> str:
        return ", ".join(str(option) for option in self.options)


@dataclass(frozen=True)
class Instance:
    """An object of some classes; ``test`` may ask more of it, and say what is wrong by an error of its own.

    ``saved`` is what may stand for it in a file, where nothing is tested by running it; null unless told otherwise.

    >>> Instance((bool, np.bool_), "True or False").holds(1)
    False
    """

    kinds: type | tuple[type, ...]
    said: str
    test: Callable[[Any], object] = lambda _: True
    saved: Rule = Nothing()

    def is_kind(self, value: Any) -> bool:
        """Whether the value is of one of the classes."""
        return isinstance(value, self.kinds)

    def holds(self, value: Any) -> bool:
        """Whether the value is one of these."""
        return self.is_kind(value) and self.test(value) is not False

    def __str__(self) -> str:
        return self.said


Allowed = tuple[Number | Word | Instance, ...]


@dataclass(frozen=True)
class Plain(Rule):
    """A number or a word that a file holds as it is."""

    allowed: Number | Word

    def __str__(self) -> str:
        return f"one of {self.allowed}" if ", " in str(self.allowed) else str(self.allowed)

    def __contains__(self, value: Any) -> bool:
        return self.allowed.holds(value)


def saved_rule(allowed: Allowed, or_none: bool = False) -> Rule:
    """What a parameter may be in a file: numbers and words as for users, and what stands for objects.

    >>> str(saved_rule((Word((-1,)), Number(1, 1024, is_whole=True)), or_none=True))
    '-1 or a whole number from 1 to 1024 or null'
    """
    rules = [one.saved if isinstance(one, Instance) else Plain(one) for one in allowed]
    is_there = any(None in rule for rule in rules)
    return Either((*rules, *[Nothing()] * (or_none and not is_there)))


def check_allowed(name: str, value: Any, allowed: Allowed, or_none: bool = False) -> None:
    """Refuse a value that a parameter may not be.

    >>> check_allowed("max_steps", 0, (Number(1, is_whole=True),))
    Traceback (most recent call last):
    diffor.errors.UserError: max_steps must be a whole number of at least 1, but got max_steps=0
    """
    if (or_none and value is None) or any(one.holds(value) for one in allowed):
        return
    known = [option for one in allowed if isinstance(one, Word) for option in one.options if isinstance(option, str)]
    hint = did_you_mean(value, known) if isinstance(value, str) else ""
    words = " or ".join([str(one) for one in allowed] + ["None"] * or_none)
    only_words = len(allowed) == 1 and isinstance(allowed[0], Word) and len(known) > 1
    rule = f"{name} must be {'one of ' if only_words else ''}{words}"
    kind = UserError if any(one.is_kind(value) for one in allowed) else UserTypeError
    raise kind(f"{rule}, but got {name}={shown(value)}{hint}")


def check_fields(known: Iterable[Field[Any]], given: Mapping[str, Any]) -> None:
    """Refuse given values that their fields do not allow; None leaves the choice to the preset where it may."""
    for one in known:
        if one.name in given:
            check_allowed(one.name, given[one.name], one.metadata["allowed"], may_be_none(one))


def may_be_none(one: Field[Any]) -> bool:
    """Whether a parameter may be None: where that is its default, or what a preset says."""
    return one.default is None or None in one.metadata.get("presets", {}).values()


def saved_rules(known: Iterable[Field[Any]], is_resolved: bool = False) -> dict[str, Rule]:
    """What each parameter may be in a file; where ``is_resolved``, only presets may have left it None."""
    rules: dict[str, Rule] = {}
    for one in known:
        or_none = None in one.metadata["presets"].values() if is_resolved else may_be_none(one)
        rules[one.name] = saved_rule(one.metadata["allowed"], or_none)
    return rules


def shown(value: Any) -> str:
    """A value as a message shows it: not all of a long one.

    >>> shown("a"), len(shown("a" * 999)), shown(10**5000)
    ("'a'", 80, 'a very long whole number')
    """
    try:
        text = repr(value)
    except ValueError:  # Python spells whole numbers up to some length only
        return "a very long whole number"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 4] + " ..."
