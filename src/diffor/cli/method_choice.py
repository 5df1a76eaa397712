"""Which method ``diffor fit`` trains: its options, and what is refused before any row is read."""

from __future__ import annotations

import argparse
import inspect
import math
from typing import Any

from diffor.cli.options import as_float
from diffor.cli.usage import UsageError, library_messages
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
    command.add_argument(
        "--method", default=DIFFOR, metavar="NAME", help="see diffor methods for the list (default: %(default)s)"
    )
    command.add_argument(
        "--method-setting",
        nargs="+",
        action="extend",
        default=[],
        type=_as_setting,
        metavar="KEY=VALUE",
        help="settings of another method than diffor, as n_bins=20 policy=uniform",
    )
    command.add_argument(
        "--duration",
        metavar="COL",
        help="column of the longest possible target, as the length of a video is for the time it is watched, in the "
        "target's units; for methods that use it. It stays a feature, too, as d2q asks for, unless --drop names it",
    )


def check_method_choice(arguments: argparse.Namespace) -> None:
    """Refuse a method that does not exist, settings that are not its own, and a duration that it needs or ignores."""
    settings = method_settings(arguments)
    if arguments.method == DIFFOR:  # the packages that know the others stay out until the rows are read
        if settings:
            raise UsageError("--method-setting is for other methods, but got --method is diffor; "
                             "choose a --preset, or its settings in Python")  # fmt: skip
        _refuse_duration(arguments)
        return
    from diffor.estimators.settings import Settings, check_method
    from diffor.methods import METHODS

    with library_messages():
        check_method(Settings(method=arguments.method, method_settings=settings))
    method = METHODS[arguments.method]
    _check_values(arguments.method, method, settings)
    if "duration" not in (*method.requires, *method.accepts):
        _refuse_duration(arguments)
    if "duration" in method.requires and arguments.duration is None:
        raise UsageError(f"method {arguments.method!r} needs the column of the duration, but got --duration is not "
                         "given; add --duration COL")  # fmt: skip


def method_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The method's settings by name; each may be given once."""
    names = [name for name, _ in arguments.method_setting]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--method-setting must name each setting once, but {name!r} stands twice")
    return dict(arguments.method_setting)


def _refuse_duration(arguments: argparse.Namespace) -> None:
    if arguments.duration is not None:
        raise UsageError(f"--duration is for methods that use it, but {arguments.method!r} does not; leave it "
                         "out: the column is a feature anyway")  # fmt: skip


def _check_values(name: str, method: Any, settings: dict[str, Any]) -> None:
    """Refuse values of another kind than the setting's, and those that the method cannot be made with."""
    parameters = inspect.signature(method).parameters
    for setting, value in settings.items():
        kinds = [kind.strip() for kind in str(parameters[setting].annotation).split("|")]
        allowed = [kind for known in kinds for kind in KINDS.get(known, (object,))]
        is_flag = isinstance(value, bool) and bool not in allowed  # to Python, true is a whole number
        if not isinstance(value, tuple(allowed)) or is_flag:
            rule = " or ".join(WORDS.get(kind, kind) for kind in kinds)
            raise UsageError(f"--method-setting {setting} of {name!r} must be {rule}, but got {value!r}")
    try:
        method(PROBE_FEATURES, **settings)
    except (ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError) as error:
        told = str(error) if isinstance(error, UserError) else f"it does not suit the method ({error}); change it"
        raise UsageError(f"--method-setting of {name!r}: {told}") from error


def _as_setting(text: str) -> tuple[str, Any]:
    """Name and value; what is neither a number nor true, false or none is a word.

    >>> [_as_setting(text) for text in ("n_bins=20", "clip=True", "sigma=none", "policy=uniform")]
    [('n_bins', 20), ('clip', True), ('sigma', None), ('policy', 'uniform')]
    """
    name, equals, value = text.partition("=")
    if not (name.strip().isidentifier() and equals and value.strip()):
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, as n_bins=20 is, but got {text!r}")
    spelled = value.strip()
    plain = {"true": True, "false": False, "none": None}
    if spelled.lower() in plain:
        return name.strip(), plain[spelled.lower()]
    if spelled.lstrip("+-").isdecimal():
        return name.strip(), int(spelled)
    number = as_float(spelled)
    return name.strip(), spelled if number is None or not math.isfinite(number) else number
