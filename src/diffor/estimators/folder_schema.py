"""What ``config.json`` of a model folder may hold: every value with its kind and range, and what must agree with what.

Ranges bound what a folder can ask of memory and time before anything is made from it. They are wide: no model that was
fitted in earnest comes near them, and saving checks them too. Settings and arguments of estimators are not told here:
their fields say what they may be, for users and for files alike.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from itertools import pairwise
from typing import Any

from diffor.core.pixels import FITS
from diffor.core.target import TRANSFORMS
from diffor.encoders import ENCODERS
from diffor.encoders.images.choice import NETWORK, ImageChoice
from diffor.encoders.images.inputs import BROKEN_CHOICES
from diffor.estimators.ensemble import IMAGES
from diffor.estimators.saved_params import from_json_params
from diffor.estimators.settings import NAME, Settings, saved_rules
from diffor.files.schema import (
    Either,
    Flag,
    ListOf,
    MapOf,
    MisfitError,
    Nothing,
    Number,
    Record,
    Rule,
    Text,
    Whole,
    optional,
)
from diffor.methods import METHODS
from diffor.training.loop import HISTORY

MANY = 10**9
SIZE = 10_000
"""Units of a layer, bins of a method, and the like."""
LAYERS = 1000
SHARE = Number(0, 1)
PLAIN = Either((NAME, Flag(), Number()))
"""A name of a column or a grade."""
SIZES = {"n_units": MANY, "n_annealing_steps": MANY, "n_warmup_steps": MANY, "n_nodes": 100, "n_layers": LAYERS}
"""Largest whole numbers of methods' own settings, where they are not ``SIZE``."""

NUMBERS = ListOf(Number())
COLUMN = {
    "number": Record({"kind": NAME, "name": PLAIN, "centre": Number(), "spread": Number(0), "has_missing": Flag(),
                      "edges": ListOf(Number(), 2, SIZE)},
                     {"holds": Text(known=("numbers", "dates", "durations", "nothing")), "low": Number(),
                      "high": Number()}),
    "category": Record({"kind": NAME, "name": PLAIN, "levels": optional(ListOf(NAME))},
                       {"is_sparse": Flag(), "n_buckets": optional(Whole(1, 2**31)), "collisions": SHARE,
                        "n_hashes": Whole(1, 2**62)}),
}  # fmt: skip
SCALES = {
    "values": Record({"bounds": optional(ListOf(Number(), 2, 2)), "transform": Text(known=TRANSFORMS),
                      "values": ListOf(Number(), 2), "units": ListOf(SHARE, 2), "log_scale": Number(1e-300),
                      "repeated": NUMBERS}),
    "grades": Record({"n_grades": Whole(1, 1_000_000), "spread": ListOf(Number(), 2, 2)}),
}  # fmt: skip
NETWORKS = Record({"n_pieces": Whole(0, SIZE), "n_waves": Whole(0, SIZE), "n_layers": Whole(0, LAYERS),
                   "width": Whole(1, SIZE), "dropout": SHARE, "uses_priors": Flag()})  # fmt: skip
CORE_STATE = Record({
    "borders": Record({"edges": ListOf(SHARE, 1, 1_000_000), "is_atom": ListOf(Flag()), "is_discrete": Flag()}),
    "kinds": ListOf(Record({"settings": NETWORKS, "n_folds": Whole(1, LAYERS), "n_priors": Whole(0, 100)}), most=100),
})  # fmt: skip
CONFORMAL = Record({"scores": NUMBERS, "n_rows": Whole(1, MANY), "widest": ListOf(Number(), 2, 2)})
IMAGE_INPUTS = Record({"side": Whole(1, 1024), "crop": Number(1e-3, 1), "fit": Text(known=FITS),
                       "broken": Text(known=BROKEN_CHOICES), "n_workers": optional(Whole(0, 4096)),
                       "cache_bytes": Whole(0, 2**60), "augment": Flag()})  # fmt: skip
HELD_OUT = Record({"crps": Number(0), "mae": Number(0), "coverage_90": SHARE})
DATA = Record({"rows": Whole(0, 2**60), "validation_rows": Whole(0, 2**60),
               "target": MapOf(Either((Number(), ListOf(Whole(0, 2**60)))))}, {"largest_limit": Number(0)})  # fmt: skip
ANYTHING = Record({}, open_to_others=True)
"""An object that is looked into by a rule of its own."""
DIGEST = Text(pattern="[0-9a-f]{64}")
CONFIG = Record(
    {
        "version": Text(100), "estimator": Text(100), "params": ANYTHING, "settings": ANYTHING,
        "columns": ListOf(ANYTHING), "named_columns": Flag(), "scale": ANYTHING, "encoders": ListOf(NAME, 0, LAYERS),
        "core": optional(CORE_STATE), "seed": Whole(0, 2**63), "history": HISTORY,
        "held_out": optional(HELD_OUT), "data": optional(DATA),
        "conformal": optional(CONFORMAL), "images": optional(IMAGE_INPUTS),
    },
    {
        "format": Whole(0, 1000), "weights_sha256": DIGEST, "config_sha256": DIGEST,
        "classes": ListOf(PLAIN, 1, 1_000_000),
        "classes_dtype": Text(pattern=r"[<>|=]?(b1?|[iuf][1248]|O8?|U\d{1,5})"),
    },
)  # fmt: skip


def check_config(config: Any, kind: type) -> None:
    """Refuse a configuration that no fitted estimator of this class has."""
    CONFIG.check(config, "")
    params, settings = from_json_params(config["params"]), from_json_params(config["settings"])
    _check_values(params, "params", saved_rules(fields(kind)))
    _check_values(settings, "settings", saved_rules(fields(Settings), is_resolved=True))
    merged = Settings(**settings)
    _check_method(merged, "settings.method_settings")
    _check_columns(config["columns"], config["named_columns"])
    _check_scale(config)
    _check_core(config, merged)
    if config["conformal"] is not None:
        _check_conformal(config["conformal"])


def _check_values(values: dict[str, Any], where: str, rules: dict[str, Rule]) -> None:
    """Arguments or settings, each by the rule of its field."""
    for name, value in values.items():
        if name not in rules:
            raise MisfitError(f"{where}.{name[:80]} is not known here; a newer DiffoR may have written it")
        rules[name].check(value, f"{where}.{name}")


def _check_method(settings: Settings, where: str) -> None:
    """The method's own settings, by the signature of its class, and those of a network of images."""
    signature = inspect.signature(METHODS[settings.method]).parameters
    for name, value in settings.method_settings.items():
        if name not in signature or name == "n_features":
            raise MisfitError(f"{where}.{name[:80]} is no setting of the method {settings.method!r}")
        rule = _rule_of(str(signature[name].annotation), SIZES.get(name, SIZE))
        rule.check(value, f"{where}.{name}")
    if settings.reads_images and settings.encoder != NETWORK:
        ImageChoice(settings.encoder, None, settings.encoder_settings)  # which refuses options it does not know


def _rule_of(annotation: str, most: int) -> Rule:
    """What an argument of a method may be, by its type.

    >>> str(_rule_of("int | None", 10))
    'a whole number from 0 to 10 or null'
    """
    kinds: dict[str, Rule] = {"int": Whole(0, most), "float": Number(-1e9, 1e9), "bool": Flag(), "str": Text(200),
                              "None": Nothing()}  # fmt: skip
    return Either(tuple(kinds[kind.strip()] for kind in annotation.split("|")))


def _check_columns(columns: list[dict[str, Any]], are_named: bool) -> None:
    for place, column in enumerate(columns):
        where = f"columns[{place}]"
        Text(known=COLUMN).check(column.get("kind"), f"{where}.kind")
        COLUMN[column["kind"]].check(column, where)
        if column["kind"] == "number":
            _check_rising(column["edges"], f"{where}.edges")
        elif len(set(column["levels"] or ())) < len(column["levels"] or ()):
            raise MisfitError(f"{where}.levels must name each level once")
        elif not column.get("is_sparse") and column.get("n_buckets") is not None:
            raise MisfitError(f"{where}.n_buckets is for sparse columns, but this is none")
    names = [column["name"] for column in columns]
    if len(set(names)) < len(names):
        raise MisfitError("columns must have names of their own, but two are called the same")
    if are_named and not all(isinstance(name, str) for name in names):
        raise MisfitError("named_columns needs names that are text, but some are numbers")


def _check_scale(config: dict[str, Any]) -> None:
    """How targets are scaled, and the names of grades where it is grades."""
    scale, has_grades = config["scale"], "classes" in config
    SCALES["grades" if has_grades else "values"].check(scale, "scale")
    if has_grades != ("classes_dtype" in config):
        raise MisfitError("classes and classes_dtype belong together, but one is missing")
    if has_grades:
        grades, wanted = config["classes"], config["classes_dtype"]
        if len(grades) != scale["n_grades"] or len(set(map(repr, grades))) < len(grades):
            raise MisfitError(f"classes must be {scale['n_grades']} different grades, as scale.n_grades says")
        width = int(wanted.split("U")[1]) if "U" in wanted else 0
        if width > max(len(str(grade)) for grade in grades) + 1000:
            raise MisfitError(f"classes_dtype {wanted} is much wider than any of the grades")
        return
    _check_rising(scale["values"], "scale.values", may_repeat=len(scale["values"]) == 2)
    _check_rising(scale["units"], "scale.units")
    _check_rising(scale["repeated"], "scale.repeated")
    if len(scale["values"]) != len(scale["units"]) or (scale["units"][0], scale["units"][-1]) != (0, 1):
        raise MisfitError("scale.units must lead from 0 to 1, one for each of scale.values")


def _check_core(config: dict[str, Any], settings: Settings) -> None:
    """What must agree about networks: how many there are, of which kind, and what they read."""
    core, encoders = config["core"], config["encoders"]
    if (core is not None) != settings.cross_fits and (config["images"] is None or core is not None):
        raise MisfitError(f"core must belong to settings that are cross-fitted, but the method is {settings.method!r}")
    if (config["images"] is not None) != settings.reads_images:
        raise MisfitError(f"images must belong to an encoder of images, but the encoder is {settings.encoder!r}")
    if core is None:
        if len(encoders) != settings.n_members:
            raise MisfitError(f"encoders must be {settings.n_members}, as settings.n_members says")
        for place, name in enumerate(encoders):
            known = ENCODERS if config["columns"] else (IMAGES,) if config["images"] else ENCODERS
            Text(known=tuple(known)).check(name, f"encoders[{place}]")
        return
    borders = core["borders"]
    if len(borders["is_atom"]) != len(borders["edges"]):
        raise MisfitError("core.borders.is_atom must have one entry for each of core.borders.edges")
    _check_rising(borders["edges"], "core.borders.edges")
    if not borders["is_discrete"] and len(borders["edges"]) < 2:
        raise MisfitError("core.borders.edges must be two or more where the target is not discrete")
    if len(encoders) < len(core["kinds"]):
        raise MisfitError("encoders must name each of core.kinds")


def _check_conformal(calibration: dict[str, Any]) -> None:
    scores, (low, high) = calibration["scores"], calibration["widest"]
    _check_rising(scores, "conformal.scores", may_repeat=True)
    if len(scores) > calibration["n_rows"] or low > high:
        raise MisfitError("conformal.n_rows must be at least the number of scores, and conformal.widest must rise")


def _check_rising(values: list[float], where: str, may_repeat: bool = False) -> None:
    for below, above in pairwise(values):
        if not (below < above or (may_repeat and below == above)):
            raise MisfitError(f"{where} must rise, but {above} follows {below}")
