"""The scikit-learn face: DiffoR for values in a range and for ordered grades, and every other method beside it."""

from __future__ import annotations

from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from diffor.core.grades import ALL_DECISIONS
from diffor.core.target import TRANSFORMS
from diffor.estimators.folder import restore
from diffor.estimators.grades import DECISION, GradeEstimator
from diffor.estimators.settings import CORE, PRESET_NAMES, CoreSettings, Word, parameter, with_parameters
from diffor.estimators.settings import MEMBERS as N_MEMBERS
from diffor.estimators.values import ValueEstimator
from diffor.methods import METHODS
from diffor.training.checkpoint import CheckpointError, load_folder

PRESET = "``fast``, ``balanced``, ``accurate``, or ``paper``, the paper's chain to the letter."
METHOD = "The method, by its name in the table."
MEMBERS = "Networks that answer together; one if None."


class UnlistedArgument:
    """A constructor argument that is kept but not shown as an attribute.

    scikit-learn takes every object with a ``transform`` attribute for a transformer; the argument of that name is a
    setting, read with ``get_params()``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        raise AttributeError(f"{self.name} is a setting, not a method: read get_params()[{self.name!r}]")


@with_parameters
class DiffoRRegressor(CoreSettings, ValueEstimator):
    """Predict a value in a range, with its whole distribution.

    What is left at None comes from the preset; after ``fit``, ``settings_`` holds what was used.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = 10 * X[:, 0]
    >>> model = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5], coverage=0.9).shape
    ((5,), (5, 2))
    """

    preset: str = parameter(PRESET, "balanced", *PRESET_NAMES)


@with_parameters
class DiffoRClassifier(CoreSettings, GradeEstimator):
    """Predict an ordered grade, with the probability of each.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.array(["low", "mid", "high"])[(X[:, 0] * 2.99).astype(int)]
    >>> model = DiffoRClassifier("fast", grades=["low", "mid", "high"], max_steps=50, random_state=0, verbose=0)
    >>> model.fit(X, y).grades_.tolist(), model.classes_.tolist()
    (['low', 'mid', 'high'], ['high', 'low', 'mid'])
    >>> model.predict_proba(X[:5]).shape  # columns as in classes_
    (5, 3)
    """

    preset: str = parameter(PRESET, "balanced", *PRESET_NAMES)


@with_parameters
class OrdinalRegressor(ValueEstimator):
    """Predict a value with any method of the table: what ``diffor methods`` lists, on the same encoders.

    ``predict`` answers as the method's authors do (``statistic="native"``) unless told otherwise. Side columns are
    keywords: ``fit(X, y, duration=d)``, ``predict(X, duration=d)``.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = OrdinalRegressor("cread", max_steps=50, random_state=0, verbose=0).fit(X, 10 * X[:, 0])
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5]).shape
    ((5,), (5, 2))
    """

    default_statistic: ClassVar[str] = "native"

    method: str = parameter(METHOD, CORE, Word(METHODS))
    _: KW_ONLY
    preset: str = parameter(PRESET, "balanced", *PRESET_NAMES)
    n_members: int | None = parameter(MEMBERS, None, N_MEMBERS)
    transform: str = parameter(
        "How the target is spread over [0, 1]: ``uniform``, ``quantile`` or ``log``.", "uniform", Word(TRANSFORMS)
    )


OrdinalRegressor.transform = UnlistedArgument("transform")  # type: ignore[assignment]


@with_parameters
class OrdinalClassifier(GradeEstimator):
    """Predict an ordered grade with any method of the table: what ``diffor methods`` lists, on the same encoders.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = (X[:, 0] * 2.99).astype(int)
    >>> model = OrdinalClassifier("corn", max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 3))
    """

    method: str = parameter(METHOD, CORE, Word(METHODS))
    _: KW_ONLY
    preset: str = parameter(PRESET, "balanced", *PRESET_NAMES)
    n_members: int | None = parameter(MEMBERS, None, N_MEMBERS)
    decision: str = parameter(
        f"{DECISION} ``native`` is the decision of the method's authors.", "native", Word(ALL_DECISIONS)
    )


Estimator = DiffoRRegressor | DiffoRClassifier | OrdinalRegressor | OrdinalClassifier
ESTIMATORS: dict[str, type[Estimator]] = {
    estimator.__name__: estimator
    for estimator in (DiffoRRegressor, DiffoRClassifier, OrdinalRegressor, OrdinalClassifier)
}


def load(folder: str | Path, encoder: nn.Module | None = None) -> Estimator:
    """Read whichever estimator a folder holds; ``encoder`` is the network if it was fitted with one of your own."""
    config, tensors = load_folder(Path(folder))
    name = config.get("estimator")
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise CheckpointError(f"{folder} holds an unknown estimator, {name!r:.80}: a newer DiffoR may have written it")
    model: Estimator = restore(ESTIMATORS[name], Path(folder), config, tensors, encoder)
    return model
