"""Which method ``diffor fit`` trains: its options, and what is refused before any row is read."""

from __future__ import annotations

import argparse
import inspect
import math
from contextlib import suppress
from typing import Any

from diffor.errors import UserError

DIFFOR = "diffor"
KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "None": (type(None),),
}
"""Values that a setting may have, by how its class writes its type."""
WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word", "None": "none"}
PROBE_FEATURES = 8


def add_method_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options that choose a method and tell it its settings and columns."""
    argument = command.add_argument
    argument("--method", default=DIFFOR, metavar="NAME", help="see diffor methods for the list (default: %(default)s)")
    many: dict[str, Any] = {"nargs": "+", "action": "extend", "default": [], "type": _as_setting}
    setting_help = "settings of another method than diffor, as n_bins=20 policy=uniform"
    argument("--method-setting", **many, metavar="KEY=VALUE", help=setting_help)
    duration_help = (
        "column of the longest possible target, as the length of a video is for the time it is watched, in the "
        "target's units; for methods that use it. It stays a feature, too, as d2q asks for, unless --drop names it"
    )
    argument("--duration", metavar="COL", help=duration_help)


def check_method_choice(arguments: argparse.Namespace) -> None:
    """Refuse a method that does not exist, settings that are not its own, and a duration that it needs or ignores."""
    settings, name = method_settings(arguments), arguments.method
    required: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    if name != DIFFOR:  # the packages that know the others stay out until they are asked for
        from diffor.estimators.settings import Settings, check_method
        from diffor.methods import METHODS

        check_method(Settings(method=name, method_settings=settings))
        _check_values(name, METHODS[name], settings)
        required, accepted = METHODS[name].requires, METHODS[name].accepts
    elif settings:
        raise UserError(
            "--method-setting is for other methods, but --method is diffor; choose a --preset, or its settings in "
            "Python"
        )
    if arguments.duration is not None and "duration" not in (*required, *accepted):
        raise UserError(
            f"--duration is for methods that use it, but {name!r} does not; leave it out: the column is a feature "
            "anyway"
        )
    if arguments.duration is None and "duration" in required:
        raise UserError(
            f"method {name!r} needs the column of the duration, but --duration is not given; add --duration COL"
        )


def method_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The method's settings by name; each may be given once."""
    names = [name for name, _ in arguments.method_setting]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--method-setting must name each setting once, but {name!r} stands twice")
    return dict(arguments.method_setting)


def _check_values(name: str, method: Any, settings: dict[str, Any]) -> None:
    """Refuse values of another kind than the setting's, and those that the method cannot be made with."""
    parameters = inspect.signature(method).parameters
    for setting, value in settings.items():
        kinds = [kind.strip() for kind in str(parameters[setting].annotation).split("|")]
        allowed = [kind for known in kinds for kind in KINDS.get(known, (object,))]
        is_flag = isinstance(value, bool) and bool not in allowed  # to Python, true is a whole number
        if not isinstance(value, tuple(allowed)) or is_flag:
            rule = " or ".join(WORDS.get(kind, kind) for kind in kinds)
            raise UserError(f"--method-setting {setting} of {name!r} must be {rule}, but got {value!r}")
    try:
        method(PROBE_FEATURES, **settings)
    except (ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError) as error:
        told = str(error) if isinstance(error, UserError) else f"it does not suit the method ({error}); change it"
        raise UserError(f"--method-setting of {name!r}: {told}") from error


def _as_setting(text: str) -> tuple[str, Any]:
    """Name and value; what is neither a number nor true, false or none is a word.

    >>> [_as_setting(text) for text in ("n_bins=20", "clip=True", "sigma=none", "policy=uniform")]
    [('n_bins', 20), ('clip', True), ('sigma', None), ('policy', 'uniform')]
    """
    name, equals, value = text.partition("=")
    if not (name.strip().isidentifier() and equals and value.strip()):
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, as n_bins=20 is, but got {text!r}")
    name, spelled = name.strip(), value.strip()
    plain = {"true": True, "false": False, "none": None}
    if spelled.lower() in plain:
        return name, plain[spelled.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            if math.isfinite(number := kind(spelled)):
                return name, number
    return name, spelled
