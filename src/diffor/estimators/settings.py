"""Settings: what each means, what it may be, and its value in every preset, told once."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from torch import nn
from typing_extensions import dataclass_transform

from diffor.core.target import TRANSFORMS
from diffor.encoders import ENCODERS
from diffor.encoders.images.choice import NETWORK, ImageChoice, reads_images
from diffor.encoders.images.networks import TIMM, all_image_encoders
from diffor.errors import UserError, UserTypeError, did_you_mean
from diffor.estimators.cross_fitting import KINDS
from diffor.files import schema
from diffor.methods import METHODS
from diffor.priors import make_prior
from diffor.training.loop import TrainConfig

CORE, PAPER = "diffor", "diffor-paper"
"""The methods of the presets: one call on borders, and the paper's chain."""
SMALL_TABLE = 5000
"""Tables with fewer rows count as small."""
NAMES = ("balanced", "fast", "accurate", "paper")
"""The presets."""
SHOWN = 80
"""Characters of a wrong value that a message shows."""
Kind = TypeVar("Kind", bound=type)


# --- what a parameter may be: rules of values that users give, which hold in files too ---


@dataclass(frozen=True)
class Number(schema.Rule):
    """A number from ``low`` to ``high``, no boolean; without ``low`` itself where ``is_above``.

    >>> whole = Number(1, is_whole=True)
    >>> 3 in whole, True in whole, 2.5 in whole, str(whole)
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

    def __contains__(self, value: Any) -> bool:
        return self.is_kind(value) and self.low <= value <= self.high and not (self.is_above and value == self.low)

    def __str__(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        above = f"above {self.low}" if self.is_above else f"of at least {self.low}"
        if self.high == math.inf:
            return f"{kind} {above}"
        return f"{kind} {above} and at most {self.high}" if self.is_above else f"{kind} from {self.low} to {self.high}"


@dataclass(frozen=True)
class Word(schema.Rule):
    """One of some words or other fixed values; those of a mapping are its keys.

    >>> str(Word(("fast", "accurate"))), True in Word((-1,))
    ('one of fast, accurate', False)
    """

    options: Iterable[Any]

    def is_kind(self, value: Any) -> bool:
        """Whether the value is of a type that is among the options."""
        return any(type(value) is type(option) for option in self.options)

    def __contains__(self, value: Any) -> bool:
        return self.is_kind(value) and value in self.options

    def __str__(self) -> str:
        words = [str(option) for option in self.options]
        return f"{'one of ' * (len(words) > 1)}{', '.join(words)}"


@dataclass(frozen=True)
class Instance(schema.Rule):
    """An object of some classes; ``test`` may ask more of it, and say what is wrong by an error of its own.

    ``saved`` is what may stand for it in a file, where nothing is tested by running it; null unless told otherwise.

    >>> 1 in Instance((bool, np.bool_), "True or False")
    False
    """

    kinds: type | tuple[type, ...]
    said: str
    test: Callable[[Any], object] = lambda _: True
    saved: schema.Rule = schema.Nothing()

    def is_kind(self, value: Any) -> bool:
        """Whether the value is of one of the classes."""
        return isinstance(value, self.kinds)

    def __contains__(self, value: Any) -> bool:
        return self.is_kind(value) and self.test(value) is not False

    def __str__(self) -> str:
        return self.said


Allowed = tuple[Number | Word | Instance, ...]
PRESET_NAMES = (Word(NAMES),)


def check_allowed(name: str, value: Any, allowed: Allowed, or_none: bool = False) -> None:
    """Refuse a value that a parameter may not be.

    >>> check_allowed("max_steps", 0, (Number(1, is_whole=True),))
    Traceback (most recent call last):
    diffor.errors.UserError: max_steps must be a whole number of at least 1, but got max_steps=0
    """
    if (or_none and value is None) or any(value in one for one in allowed):
        return
    known = [option for one in allowed if isinstance(one, Word) for option in one.options if isinstance(option, str)]
    hint = did_you_mean(value, known) if isinstance(value, str) else ""
    words = " or ".join([str(one) for one in allowed] + ["None"] * or_none)
    kind = UserError if any(one.is_kind(value) for one in allowed) else UserTypeError
    raise kind(f"{name} must be {words}, but got {name}={shown(value)}{hint}")


def check_fields(known: Iterable[Field[Any]], given: Mapping[str, Any]) -> None:
    """Refuse given values that their fields do not allow; None leaves the choice to the preset where it may."""
    for one in known:
        if one.name in given:
            check_allowed(one.name, given[one.name], one.metadata["allowed"], _may_be_none(one))


def _may_be_none(one: Field[Any]) -> bool:
    """Whether a parameter may be None: where that is its default, or what a preset says."""
    return one.default is None or None in one.metadata.get("presets", {}).values()


def saved_rules(known: Iterable[Field[Any]], is_resolved: bool = False) -> dict[str, schema.Rule]:
    """What each parameter may be in a file; where ``is_resolved``, only presets may have left it None."""
    rules: dict[str, schema.Rule] = {}
    for one in known:
        or_none = None in one.metadata["presets"].values() if is_resolved else _may_be_none(one)
        allowed = [each.saved if isinstance(each, Instance) else each for each in one.metadata["allowed"]]
        is_there = any(None in rule for rule in allowed)
        rules[one.name] = schema.Either((*allowed, *[schema.Nothing()] * (or_none and not is_there)))
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


# --- one dataclass of settings: constructors, their documentation, presets and searches come from it ---


@dataclass(frozen=True)
class Choice:
    """One of several values of a setting."""

    options: tuple[Any, ...]

    def nearest(self, value: Any) -> Any:
        """The value if it is among them, or the first of them."""
        return value if value in self.options else self.options[0]

    def has(self, value: Any) -> bool:
        """Whether the value is one of them."""
        return value in self.options

    def distribution(self) -> Any:
        """The same for Optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.options)


@dataclass(frozen=True)
class Range:
    """A number between two others, by ratios where ``log``."""

    low: float
    high: float
    log: bool = False

    def nearest(self, value: Any) -> float:
        """The value, moved into the range."""
        return float(min(max(value, self.low), self.high))

    def has(self, value: Any) -> bool:
        """Whether the value lies between them."""
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def distribution(self) -> Any:
        """The same for Optuna."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log)


Space = dict[str, Choice | Range]


def setting(
    meaning: str,
    balanced: Any,
    *allowed: Number | Word | Instance,
    default: Any = None,
    encoded: Any = None,
    search: Choice | Range | None = None,
    search_paper: Choice | Range | None = None,
    **presets: Any,
) -> Any:
    """A setting: what it means, its value in ``balanced``, what it may be, and its value in the presets that differ.

    ``default`` stands in a constructor for the preset's value. ``encoded`` is the value where a method stands on an
    encoder. ``search`` says which values are worth searching, ``search_paper`` in the preset ``paper``.
    """
    if not presets.keys() <= set(NAMES):
        raise TypeError(f"presets must be among {NAMES}, but got {sorted(presets)}")
    if not allowed:
        raise TypeError(f"a setting must say which values it may have: {meaning}")
    values = {name: presets.get(name, balanced) for name in NAMES}
    searches = {name: search_paper if name == "paper" else search for name in NAMES}
    known = {"meaning": meaning, "presets": values, "encoded": encoded, "search": searches, "allowed": allowed}
    return field(default=default, metadata=known)


def parameter(meaning: str, default: Any, *allowed: Number | Word | Instance) -> Any:
    """A constructor's argument that no preset decides, with what it means and what it may be."""
    if not allowed:
        raise TypeError(f"a parameter must say which values it may have: {meaning}")
    return field(default=default, metadata={"meaning": meaning, "allowed": allowed})


@dataclass_transform()
def with_parameters(kind: Kind) -> Kind:
    """Make a class of documented fields: its constructor takes them, and its docstring says ``{parameters}``."""
    made: Any = dataclass(eq=False, repr=False)(kind)
    made.__doc__ = inspect.cleandoc(made.__doc__ or "").replace("{parameters}", describe_parameters(made))
    return cast(Kind, made)


def describe_parameters(kind: type) -> str:
    """A constructor's arguments in numpydoc's form, with their values in the presets."""
    known = {one.name: one for one in fields(kind)}
    lines = ["Parameters", "----------"]
    for name in inspect.signature(kind).parameters:
        one, text = known[name], known[name].metadata["meaning"]
        presets = one.metadata.get("presets", {})
        if presets:
            differing = [f"{preset} {value!r}" for preset, value in presets.items() if value != presets["balanced"]]
            text += f" Presets: {', '.join([repr(presets['balanced']), *differing])}."
            text += "" if one.metadata["encoded"] is None else f" On an encoder: {one.metadata['encoded']!r}."
        lines.append(f"{name} : {getattr(one.type, '__name__', one.type)}, default {one.default!r}")
        lines += textwrap.wrap(text, 110, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


COUNT = Number(1, 10**9, is_whole=True)
RATE = Number(0.0, 100.0, is_above=True)
FLAG = Instance((bool, np.bool_), "True or False", saved=schema.Flag())
OPTION = schema.Either((
    schema.Nothing(), schema.Flag(), schema.Whole(-10_000, 10_000), schema.Number(-1e9, 1e9), schema.Text(200),
    schema.ListOf(schema.Number(-1e9, 1e9), 0, 16),
))  # fmt: skip
"""What a file may hold of an option; what reads it asks more of it."""
OPTIONS = Instance(
    dict,
    "a dictionary of options by name",
    lambda given: all(isinstance(name, str) for name in given),
    saved=schema.MapOf(OPTION),
)
NAME = schema.Text(10_000)
"""A name or a path in a file."""
PATH = Instance((str, Path), "a path", lambda path: str(path) != "", saved=NAME)
SAVED_PRIOR = schema.Either((schema.Nothing(), NAME, schema.ListOf(NAME, most=100)))
SAVED_NETWORK = schema.Either((
    schema.Text(known=(NETWORK, *all_image_encoders())), schema.Text(200, pattern=rf"{TIMM}[\w.\-]+"),
))  # fmt: skip
SAVED_KINDS = schema.ListOf(schema.Text(known=KINDS), most=len(KINDS) * 4)
# Each fold, member and layer is a network's or a layer's worth of memory, which a file could ask for as well as a user.
FOLDS = Number(2, 1000, is_whole=True)
MEMBERS = Number(1, 1000, is_whole=True)
LAYERS = Number(0, 1000, is_whole=True)
WIDTH = Number(1, 10_000, is_whole=True)


def check_prior(given: Any) -> None:
    """Refuse what is neither the name of a prior, nor a regressor, nor some of these."""
    for entry in given if isinstance(given, (list, tuple)) else () if given in (None, "auto") else (given,):
        make_prior(entry)


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds of networks that do not exist."""
    for kind in kinds:
        check_allowed("kinds", kind, (Word(KINDS),))


@with_parameters
class TrainingSettings:
    """Settings that every estimator takes: how networks are trained, and how images are read."""

    _: KW_ONLY

    method_settings: dict[str, Any] = setting(
        "Arguments of the method's class: with preset='paper' those of "
        ":class:`~diffor.methods.diffor.IncrementDiffusion`, so every ablation.",
        {},
        OPTIONS,
    )
    encoder: str | nn.Module = setting(
        "For images, a network by name (``small``, ``resnet18``, ``resnet34``, ``resnet50``, ``efficientnet-lite0``, "
        "``timm:NAME``; of photos' beauty, compact: ``rapid``, ``alamp``, ``mpada-patches``, ``mlsp``, ``hgcn``, "
        "``musiq``, ``tanet``, ``delegate``, ``aesmamba``; with a file of weights ``maxvit``, of faces ``farl``) "
        "or one of yours with ``out_features``; X is then a list of paths, a folder, a frame with a "
        "column ``path`` beside others, an array ``(n, height, width, 3)`` or a list of Pillow's images. ``plain``, "
        "``piecewise`` and ``periodic`` are networks of tables, without priors and folds.",
        "auto",
        Word(("auto",)),
        Word(ENCODERS),
        Instance(
            (str, nn.Module),
            f"for images {', '.join(all_image_encoders())}, {TIMM}NAME or a network of yours",
            reads_images,
            SAVED_NETWORK,
        ),
        default="auto",
        paper="plain",
    )
    max_steps: int = setting("Training steps at most.", 700, COUNT, encoded=800, paper=4000)
    batch_size: int = setting(
        "Rows that each network learns from in a step.",
        128,
        COUNT,
        encoded=256,
        paper=1024,
        search=Choice((128, 256, 512)),
        search_paper=Choice((256, 512, 1024)),
    )
    learning_rate: float = setting(
        "Largest step size of Adam.",
        3e-3,
        RATE,
        encoded=6e-3,
        paper=5e-4,
        search=Range(3e-4, 1e-2, log=True),
        search_paper=Range(1e-4, 3e-3, log=True),
    )
    weight_decay: float = setting(
        "Decay of the weights in a step, as a share of the step size.",
        0.02,
        Number(0.0, 10.0),
        encoded=0.0,
        paper=0.0,
        search=Choice((0.0, 0.02, 0.1)),
        search_paper=Choice((0.0, 1e-4, 1e-3, 1e-2)),
    )
    patience: int = setting("Evaluations without a better score that end training.", 8, COUNT, encoded=6)
    evaluate_every: int = setting("Steps between evaluations.", 25, COUNT, encoded=50, paper=100)
    n_samples: int = setting(
        "Samples of a row that chains draw; closed forms need none.", 64, Number(1, 100_000, is_whole=True), paper=1
    )
    encoder_weights: str | Path | None = setting("File of the first weights of a network of images.", None, PATH)
    encoder_settings: dict[str, Any] = setting("Options of a network of images.", {}, OPTIONS)
    image_settings: dict[str, Any] = setting(
        "How images are read: ``side``, ``augment``, ``n_workers`` and more.", {}, OPTIONS
    )
    freeze_backbone: bool = setting(
        "Whether a network of images stays as it is; its features are then columns of a table.", False, FLAG
    )
    backbone_learning_rate: float | None = setting("Step size of a network of images, where it is its own.", None, RATE)
    accumulate: int = setting("Pieces that a batch of images is computed in.", 1, COUNT)
    max_levels: int | None = setting(
        "Levels that a column may have with an embedding each; columns with more are hashed, with a warning. None "
        "is as many as memory is sure to hold: 100,000 for cross-fitted networks, 5 million for others.",
        None,
        COUNT,
    )
    epochs: int | None = setting(
        "Times that all training rows are learned from, in place of ``max_steps``. The paper's are 50 on tables and "
        "100 on images.",
        None,
        COUNT,
    )
    early_stopping: bool | None = setting(
        "Whether validation rows end training and choose the weights; if not, all steps are made and the last weights "
        "are kept.",
        True,
        FLAG,
    )


@with_parameters
class CoreSettings:
    """Settings of DiffoR alone: priors, folds, borders, and the paper's diagnosis."""

    _: KW_ONLY

    prior: Any = setting(
        "What advises the networks about every row: names (``trees``, ``process``, ``process-ranks``, ``forest``, "
        "``lightgbm``, ``catboost``), a regressor of yours, a list of these, or None for no advice; ``auto`` is the "
        "preset's.",
        ("trees", "process", "process-ranks"),
        Instance(object, "names, regressors or None", check_prior, SAVED_PRIOR),
        default="auto",
        fast=("trees", "process"),
        paper=(),
    )
    n_folds: int | str = setting(
        "Parts of the rows, each held out by one network of a kind; ``auto`` goes by the number of rows.",
        "auto",
        Word(("auto",)),
        FOLDS,
    )
    n_increments: int | str = setting(
        "Intervals of the target's range; ``auto`` goes by the priors' error.",
        "auto",
        Word(("auto",)),
        Number(1, 100_000, is_whole=True),
        search=Choice(("auto", 64, 128)),
    )
    keep_out_of_fold: bool = setting(
        "Whether ``out_of_fold_`` keeps the distribution of every training row by networks that never saw it.",
        False,
        FLAG,
        default=False,
    )
    diagnose: bool = setting(
        "Whether training of the paper's chain notes how the gradients of different times agree.", False, FLAG
    )


# NOTE[DIFF]: the paper trains for epochs (50 of batch 1024 on tables, 100 of batch 128 on images) and names no early
# stopping; here a number of steps, which means the same for every table size, ends early. `epochs=50` and
# `early_stopping=False` are the letter. It names no averaging, clipping, warm-up or decay, so its preset has none.
@dataclass(init=False)
class Settings(TrainingSettings, CoreSettings):
    """Everything that shapes a fit, each setting with its value: the preset's or the one given instead.

    >>> Settings(max_steps=10).max_steps, Settings.of_preset("paper").batch_size
    (10, 1024)
    """

    method: str = setting("The method by its name in the table.", CORE, Word(METHODS), paper=PAPER)
    transform: str = setting(
        "How the target is spread over [0, 1]: ``uniform``, ``quantile`` or ``log``.", "uniform", Word(TRANSFORMS)
    )
    n_members: int = setting("Networks on an encoder that answer together.", 1, MEMBERS)
    kinds: Sequence[str] = setting(
        "Kinds of networks.",
        ("plain", "advised"),
        Instance((tuple, list), "kinds of networks by name", check_kinds, SAVED_KINDS),
        fast=("advised",),
        accurate=("deep", "waves", "advised", "slow"),
        paper=(),
    )
    large_prior: Any = setting(
        # Of many rows ranks tell nothing beside the process on columns: 0 to -.5 % of CRPS without, on seven tables.
        "Priors of tables with many rows, where they are to be others.",
        ("trees", "process"),
        Instance(object, "names, regressors or None", check_prior, SAVED_PRIOR),
        fast=("trees",),
        accurate=None,
        paper=None,
    )
    max_folds: int = setting("Folds where rows are few.", 5, FOLDS, fast=3, accurate=10)
    encoder_width: int = setting("Width of an encoder's layers.", 192, WIDTH, fast=96, paper=256)
    encoder_layers: int = setting("Layers of an encoder.", 2, LAYERS)
    encoder_dropout: float | str = setting(
        "Share of an encoder's values that training hides.", "auto", Word(("auto",)), Number(0.0, 0.99), paper=0.1
    )
    warmup_share: float = setting("Share of the steps in which the step size rises.", 0.05, Number(0.0, 1.0), paper=0.0)
    decay: bool = setting("Whether the step size falls to zero.", True, FLAG, paper=False)
    ema: float = setting(
        "Decay of the running mean of weights; 0 for none.", 0.99, Number(0.0, 1.0), encoded=0.999, paper=0.0
    )
    gradient_clip: float = setting(
        "Largest norm of a gradient.", 16.0, Number(0.0, is_above=True), encoded=1.0, paper=float("inf")
    )

    def __init__(self, **values: Any) -> None:
        for one in fields(self):
            setattr(self, one.name, copy(one.metadata["presets"]["balanced"]))
        for name, value in values.items():
            if name not in vars(self):
                raise TypeError(f"there is no setting {name!r}{did_you_mean(name, vars(self))}")
            setattr(self, name, value)

    @classmethod
    def of_preset(cls, preset: str) -> Settings:
        """The settings of a preset."""
        return cls(**{one.name: copy(one.metadata["presets"][preset]) for one in fields(cls)})

    def but(self, **changes: Any) -> Settings:
        """The same settings, save these."""
        return Settings(**(vars(self) | changes))

    @property
    def reads_images(self) -> bool:
        """Whether the encoder is one of images rather than of tables."""
        return self.encoder not in ("auto", *ENCODERS) and reads_images(self.encoder)

    @property
    def cross_fits(self) -> bool:
        """Whether tables are answered by cross-fitted networks, rather than by an encoder and a method."""
        on_table = self.encoder == "auto" or self.freeze_backbone
        return METHODS[self.method].cross_fits and on_table and not self.method_settings

    def for_training(self) -> dict[str, Any]:
        """Arguments of :class:`~diffor.training.loop.TrainConfig`."""
        return {one.name: vars(self)[one.name] for one in fields(TrainConfig) if one.name in vars(self)}


PRESETS = {name: Settings.of_preset(name) for name in NAMES}
ENCODED = {one.name: one.metadata["encoded"] for one in fields(Settings) if one.metadata["encoded"] is not None}
"""How a method on an encoder is trained, where that is not the paper's way: every method alike."""

IMAGE_BATCH = 64
"""Images of a step of fine-tuning; the preset ``paper`` has the paper's 128."""
RATE_WITH_WEIGHTS = 1e-4
"""Learning rate of a network of images that has learned before. One that has not learns at the rate of all others: on
1,000 faces, 200 steps of a small network missed by 11.9 years at 5e-4, 11.4 at 2e-3, 11.0 at 6e-3 (one seed)."""
OF_IMAGES = ("encoder_weights", "encoder_settings", "image_settings", "freeze_backbone", "backbone_learning_rate")
OF_CORE = ("prior", "n_folds", "keep_out_of_fold")


def choose_prior(settings: Settings, n_rows: int) -> Any:
    """The priors of a table with so many rows.

    >>> choose_prior(PRESETS["fast"], 1000), choose_prior(PRESETS["fast"], 100_000)
    (('trees', 'process'), ('trees',))
    """
    is_large = settings.large_prior is not None and n_rows >= SMALL_TABLE
    return settings.large_prior if is_large else settings.prior


def train_on_encoder(settings: Settings, given: dict[str, Any]) -> Settings:
    """Settings for a method on an encoder: the rate and the rest that suit it, save what is given or the paper's.

    >>> train_on_encoder(PRESETS["balanced"], {"max_steps": 10}).learning_rate
    0.006
    """
    if given.get("preset") == "paper":
        return settings
    return settings.but(**{name: value for name, value in ENCODED.items() if given.get(name) is None})


def _adapt_to_images(settings: Settings, given: dict[str, Any]) -> Settings:
    """Settings for training a network of images: smaller batches, and a low rate where it has learned before.

    The paper names one rate for all weights, so its preset has one.
    """
    if settings.freeze_backbone:
        return settings
    changed: dict[str, Any] = {}
    if given.get("batch_size") is None:
        changed["batch_size"] = IMAGE_BATCH if settings.batch_size < PRESETS["paper"].batch_size else 2 * IMAGE_BATCH
    has_weights = image_choice(settings, given.get("encoder")).has_weights
    if settings.backbone_learning_rate is None and has_weights and given.get("preset") != "paper":
        changed["backbone_learning_rate"] = RATE_WITH_WEIGHTS
    return settings.but(**changed)


def image_choice(settings: Settings, network: Any = None) -> ImageChoice:
    """The network of images that settings name; one of the user's is passed beside them."""
    encoder = network if isinstance(network, nn.Module) else settings.encoder
    return ImageChoice(encoder, settings.encoder_weights, settings.encoder_settings, settings.freeze_backbone)


def _check_images(settings: Settings, given: dict[str, Any]) -> None:
    """Refuse settings of images where there are none, and wrong ones where there are."""
    if settings.reads_images:
        image_choice(settings, given.get("encoder")).inputs(settings.image_settings)
        return
    wrong = [name for name in OF_IMAGES if getattr(settings, name) != getattr(PRESETS["balanced"], name)]
    if wrong:
        raise UserError(
            f"{wrong[0]} is for encoders of images, but encoder={settings.encoder!r} reads tables; "
            f"leave {wrong[0]} out or choose an encoder of images"
        )


def choose_dropout(settings: Settings, n_rows: int) -> float:
    """Share of the encoder's values that training hides: as set, or more where rows are few and soon known by heart.

    >>> choose_dropout(PRESETS["balanced"], n_rows=1000), choose_dropout(PRESETS["balanced"], n_rows=100_000)
    (0.3, 0.1)
    """
    if settings.encoder_dropout == "auto":
        return 0.3 if n_rows < SMALL_TABLE else 0.1
    return float(settings.encoder_dropout)


def check_method(settings: Settings) -> None:
    """Refuse a method that does not exist, and settings that its class does not take."""
    check_allowed("method", settings.method, (Word(METHODS),))
    known = [name for name in inspect.signature(METHODS[settings.method]).parameters if name != "n_features"]
    for name in settings.method_settings:
        if name not in known:
            raise UserError(
                f"method_settings of {settings.method!r} must be among {', '.join(known) or 'none'}, but got {name!r}"
                + did_you_mean(str(name), known)
            )


def _check_core(settings: Settings, given: dict[str, Any]) -> None:
    """Refuse settings of cross-fitted networks where there are none."""
    method, left_out = METHODS[settings.method], {"prior": "auto", "keep_out_of_fold": False}
    wrong = [name for name in (*OF_CORE, "n_increments") if given.get(name) not in (None, left_out.get(name))]
    if method.cross_fits or not wrong:
        return
    if method.has_increments and wrong[0] == "n_increments":
        raise UserError(
            "the paper's increments are a setting of its method, but n_increments is given; "
            'write method_settings={"n_increments": ...}'
        )
    raise UserError(f"{wrong[0]} is for the method {CORE!r}, but got method={settings.method!r}; leave it out")


def resolve_settings(preset: str, given: dict[str, Any]) -> Settings:
    """The preset's settings with the given ones in their place; None and ``auto`` leave it as it is.

    >>> resolve_settings("paper", {"method_settings": {"n_increments": 4}, "width": None}).method_settings
    {'n_increments': 4}
    """
    check_allowed("preset", preset, PRESET_NAMES)
    check_fields(fields(Settings), given)
    known = {field.name for field in fields(Settings)}
    changed = {name: value for name, value in given.items() if name in known and value is not None}
    for name in ("encoder", "prior"):
        if isinstance(changed.get(name), nn.Module):
            changed[name] = NETWORK
        elif isinstance(changed.get(name), str) and changed[name] == "auto":
            del changed[name]
    if "prior" in given and given["prior"] is None and METHODS[PRESETS[preset].method].cross_fits:
        changed["prior"] = ()
    if "prior" in changed:
        changed["large_prior"] = None
    given = given | {"preset": preset}
    settings = PRESETS[preset].but(**changed)
    check_method(settings)
    _check_core(settings, given)
    _check_images(settings, given)
    if not settings.cross_fits:
        settings = train_on_encoder(settings, given)
    if settings.reads_images:
        settings = _adapt_to_images(settings, given)
    return settings
