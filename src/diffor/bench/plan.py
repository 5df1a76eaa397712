"""Run files: which data sets, methods and seeds a benchmark goes through, in TOML.

.. code-block:: toml

    suites = ["open", "synthetic"]      # and / or datasets = ["diabetes"]
    seeds = 5                           # or a list: [0, 1, 2]
    root = "../data"                    # folder of the data sets that are read from files
    out = "results.jsonl"
    n_samples = 100
    valid_share = 0.1
    max_train_rows = 50000
    max_test_rows = 2000
    timeout_seconds = 3600

    [images]                            # how image data sets become tables; all methods read the same features
    encoder = "efficientnet-lite0"      # or "small", "resnet50", "timm:NAME"; "none": methods read the pictures
    side = 160
    pooling = "mean+max"
    weights = "resnet50.pth"            # where no package carries them
    columns = false                     # columns beside the pictures are left out

    [datasets.diamonds-price]           # limits of single data sets; names of others may stand in datasets.names
    max_train_rows = 10000
    seeds = 2                           # its own; "all" leaves each person of fgnet out once

    [methods]
    names = ["constant", "lightgbm-quantile"]   # or "all"; methods = [...] where none has settings

    [methods.diffor]                    # a table adds its method
    n_increments = 16

    [methods.diffor-coarse]             # the same peer under another name
    peer = "diffor"
    n_increments = 4

    [methods."method:*"]                # settings of all methods whose names look like this; what a method's own table
    encoder = "plain"                   # says goes before. names = ["method:all"] takes every one on the shared encoder

    [methods.lightgbm-quantile.search]
    num_leaves = [15, 31, 63]

    [tuning]
    trials = 10                         # for each method that declares a search

    [quick]                             # what --size quick changes: anything from above; so does [small]
    datasets = ["diabetes"]
    seeds = 2
    settings = { max_steps = 20 }       # of every method that is trained here, in place of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from diffor import datasets
from diffor.bench.cell import Cell
from diffor.bench.image_features import image_features
from diffor.bench.peers import METHOD, PEERS, find_peer
from diffor.errors import UserError, did_you_mean
from diffor.files.toml_files import read_toml

ALL = "all"
CONSTANT = "constant"
"""The method that is always compared with."""
SIZES = ("small", "quick")
"""Smaller versions of a run that a file may describe: one that ends within hours on a few cores, one within minutes."""
LIMITS = ("max_train_rows", "max_test_rows")


@dataclass(frozen=True)
class Method:
    """A peer under a name, with its settings and what is searched for."""

    name: str
    peer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A run: everything that a run file or the command line can say."""

    suites: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    methods: tuple[Method, ...] = ()
    seeds: tuple[int, ...] = (0,)
    root: str | None = None
    out: str | None = None
    n_samples: int = 100
    valid_share: float = 0.1
    max_train_rows: int | None = None
    max_test_rows: int | None = None
    timeout_seconds: float | None = None
    trials: int | None = None
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Row limits and seeds of single data sets, which go before those of the run."""
    images: Mapping[str, Any] = field(default_factory=dict)
    """What is said about the features of pictures; what is not said is chosen."""
    shared_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings by pattern of a method's name, ``[methods."method:*"]``."""

    def dataset_names(self) -> list[str]:
        """All data sets, each once: those of the suites, then those named."""
        listed = [name for suite in self.suites for name in datasets.all_suites()[suite]]
        return list(dict.fromkeys([*listed, *self.datasets]))

    def cells(self) -> list[Cell]:
        """All cells, seed by seed, so that what is finished at any time is balanced."""
        by_dataset = {dataset: self.seeds_of(dataset) for dataset in self.dataset_names()}
        return [
            self._cell(dataset, method, seeds[turn])
            for turn in range(max(map(len, by_dataset.values()), default=0))
            for dataset, seeds in by_dataset.items()
            for method in self.methods
            if turn < len(seeds) and datasets.find_dataset(dataset).task in find_peer(method.peer).tasks
        ]

    def seeds_of(self, dataset: str) -> tuple[int, ...]:
        """The seeds of a data set: its own, where it has some; ``all`` are those of all its splits."""
        own = self.limits.get(dataset, {}).get("seeds")
        if own is None:
            return self.seeds
        count = datasets.find_dataset(dataset).count_splits
        return as_seeds(count(self.root)) if own == ALL and count is not None else as_seeds(own)

    def _cell(self, dataset: str, method: Method, seed: int) -> Cell:
        own = self.limits.get(dataset, {})
        has_images = datasets.find_dataset(dataset).image_column is not None
        tuned = bool(method.search) and self.trials is not None
        return Cell(
            dataset=dataset,
            method=method.name,
            seed=seed,
            peer=method.peer,
            settings=dict(method.settings),
            n_samples=self.n_samples,
            valid_share=self.valid_share,
            max_train_rows=own.get("max_train_rows", self.max_train_rows),
            max_test_rows=own.get("max_test_rows", self.max_test_rows),
            trials=self.trials if tuned else None,
            search=dict(method.search) if tuned else {},
            images=image_features(self.images) if has_images else None,
        )


KEYS = {entry.name for entry in fields(Plan)} - {"limits", "trials", "shared_settings"} | {"tuning"}
"""What a run file may hold, and its table ``[quick]`` change."""


def suite_of(dataset: str, preferred: Iterable[str] = ()) -> str | None:
    """The suite that a data set belongs to, or None."""
    suites = datasets.all_suites()
    return next((suite for suite in (*preferred, *suites) if dataset in suites[suite]), None)


# Reading.


def read_run_file(path: Path, size: str | None = None) -> Plan:
    """The plan that a file describes, checked; a relative root or out is relative to where the command runs."""
    return plan_from(read_toml(path, "a run file", UserError), str(path), size)


def plan_from(content: Mapping[str, Any], where: str = "the run file", size: str | None = None) -> Plan:
    """The plan that a run file's content describes, checked; a size names the table of what it changes.

    >>> plan_from({"datasets": ["diabetes"], "methods": ["diffor-fast"], "seeds": 2}).seeds
    (0, 1)
    """
    sizes = {name: dict(_as_table(content[name], name, where)) for name in SIZES if name in content}
    content = {name: value for name, value in content.items() if name not in SIZES}
    for name, changes in sizes.items():
        _check_keys(changes, {*KEYS, "settings"}, f"[{name}] of {where}")
    if size is not None and size not in sizes:
        raise UserError(f"{where} has no table [{size}] that says what the size {size} changes; add one")
    changes = sizes.get(size or "", {})
    in_place = _as_table(changes.pop("settings", {}), f"{size}.settings", where)
    content |= changes
    _check_keys(content, KEYS, where)
    tuning = _as_table(content.pop("tuning", {}), "tuning", where)
    _check_keys(tuning, {"trials"}, f"[tuning] of {where}")
    names, limits = _names_and_tables(content.pop("datasets", []), "datasets", where)
    for name, table in limits.items():
        _check_keys(table, {*LIMITS, "seeds"}, f"[datasets.{name}] of {where}")
    chosen, tables = _names_and_tables(content.pop("methods", []), "methods", where)
    # Limits of a data set do not add it to the run, since a suite may already hold it; settings of a method do add it.
    methods = make_methods([*chosen, *(name for name in tables if "*" not in name)], tables, where)
    plan = Plan(**{
        **content,
        "suites": tuple(_as_list(content.get("suites", []), "suites", where)),
        "datasets": tuple(names),
        "methods": methods,
        "seeds": as_seeds(content.get("seeds", 1)),
        "trials": tuning.get("trials"),
        "limits": limits,
        "shared_settings": {name: table for name, table in tables.items() if "*" in name},
    })  # fmt: skip
    checked(plan)
    # Other people's packages may not know the settings of what is trained here.
    return replace(plan, methods=tuple(
        replace(method, settings={**method.settings, **in_place}) if find_peer(method.peer).is_trained_here else method
        for method in methods
    ))  # fmt: skip


def _names_and_tables(value: Any, key: str, where: str) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """A list of names, or a table that may hold one under ``names`` and a table for each name that needs one."""
    if not isinstance(value, Mapping):
        return _as_list(value, key, where), {}
    tables = {name: dict(_as_table(table, f"{key}.{name}", where)) for name, table in value.items() if name != "names"}
    return _as_list(value.get("names", []), f"{key}.names", where), tables


def make_methods(names: Sequence[str], tables: Mapping[str, dict[str, Any]], where: str) -> tuple[Method, ...]:
    """Methods by their names, with what the tables say about them; the constant is always among them.

    What patterns that fit a name say holds, later ones before earlier ones; the constant has no settings.
    """
    methods = []
    for name in dict.fromkeys([CONSTANT, *(other for listed in names for other in expand(listed))]):
        settings: dict[str, Any] = {}
        for pattern, table in tables.items():
            if "*" in pattern and fnmatchcase(name, pattern) and name != CONSTANT:
                settings |= table
        settings |= tables.get(name, {})
        peer, search = settings.pop("peer", name), settings.pop("search", {})
        for parameter, values in _as_table(search, f"methods.{name}.search", where).items():
            if not isinstance(values, list) or not values:
                raise UserError(f"[methods.{name}.search] of {where} must list values for each parameter, "
                                f"but got {parameter}={values!r}; write {parameter} = [first, second]")  # fmt: skip
        methods.append(Method(name, peer, settings, search))
    return tuple(methods)


def expand(name: str) -> Iterable[str]:
    """The names that a name stands for: those of all peers, of all methods on the shared encoder, or its own."""
    if name == METHOD + ALL:
        from diffor.methods import METHODS

        return [METHOD + method for method in METHODS]
    return PEERS if name == ALL else [name]


def with_methods(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with other methods: those that it knows keep their settings, what it says of all holds for new ones."""
    known = {method.name: method for method in plan.methods}
    tables = {pattern: dict(table) for pattern, table in plan.shared_settings.items()}
    fresh = make_methods(names, tables, "the command line")
    return replace(plan, methods=tuple(known.get(method.name, method) for method in fresh))


def as_seeds(value: Any) -> tuple[int, ...]:
    """Seeds from a number of them or a list.

    >>> as_seeds(3), as_seeds([4, 7])
    ((0, 1, 2), (4, 7))
    """
    if _is_count(value):
        return tuple(range(value))
    if not isinstance(value, (list, tuple)) or not value or not all(seed == 0 or _is_count(seed) for seed in value):
        raise UserError(f"seeds must be a number of seeds or a list of whole numbers from 0 on, but got {value!r}")
    return tuple(dict.fromkeys(value))


# Checking.


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("n_samples", "trials", *LIMITS), (_is_count, "a whole number from 1 on")),
    **dict.fromkeys(("root", "out"), (lambda value: isinstance(value, str), "a path in quotes")),
    "valid_share": (lambda value: _is_number(value) and 0 < value < 1, "a share between 0 and 1, as 0.1 is"),
    "timeout_seconds": (lambda value: _is_number(value) and value > 0, "a positive number"),
}
"""What single values of a plan must be, where they are given."""


def checked(plan: Plan) -> Plan:
    """The plan, if each of its parts exists and makes sense."""
    for suite in plan.suites:
        _check_name(suite, datasets.all_suites(), "suite")
    for name in (*plan.datasets, *plan.limits):
        if name.startswith(datasets.PREFIX):
            datasets.find_dataset(name)  # which names what is wrong
        else:
            _check_name(name, datasets.DATASETS, "data set")
    for method in plan.methods:
        find_peer(method.peer)
    if not plan.dataset_names():
        listed = ", ".join(datasets.all_suites())
        raise UserError(f"a run must have data sets, but neither suites nor datasets name one; suites are {listed}")
    values = {name: getattr(plan, name) for name in RULES}
    values |= {f"datasets.{dataset}.{name}": own.get(name) for dataset, own in plan.limits.items() for name in LIMITS}
    for name, value in values.items():
        is_right, rule = RULES[name.rsplit(".", 1)[-1]]
        if value is not None and not is_right(value):
            raise UserError(f"{name} must be {rule}, but got {value!r}")
    for dataset, own in plan.limits.items():
        if own.get("seeds") == ALL:
            if datasets.find_dataset(dataset).count_splits is None:
                raise UserError(f"datasets.{dataset}.seeds may be 'all' for sets that leave each person out once, "
                                f"but {dataset} has no such splits; name a number of seeds")  # fmt: skip
        elif own.get("seeds") is not None:
            as_seeds(own["seeds"])
    if plan.images:
        image_features(_as_table(plan.images, "images", "a run"), "[images]")
    return plan


def _check_name(name: str, known: Iterable[str], what: str) -> None:
    if name not in known:
        hint = did_you_mean(name, known)
        raise UserError(f"{what} must be one of {', '.join(sorted(known))}, but got {name!r}{hint}")


def _check_keys(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise UserError(f"{where} may hold {', '.join(sorted(known))}, but got {key!r}{did_you_mean(key, known)}")


def _as_list(value: Any, key: str, where: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{key} of {where} must be a list of names, but got {value!r}")
    return list(names)


def _as_table(value: Any, key: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"[{key}] of {where} must be a table, but got {value!r}")
    return value
