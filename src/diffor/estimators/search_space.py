"""Which settings are worth searching, and how far: those whose fields in ``Settings`` say so."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from diffor.encoders.images.choice import reads_images
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.settings import Settings, Space, resolve_settings

OF_VALUES = ("n_increments",)
"""Settings of amounts: grades have a step for each border."""
OF_TABLES = ("n_increments", "batch_size")
"""Settings of tables: batches of images are as large as memory allows."""


def search_space(estimator: Any) -> Space:
    """The settings of an estimator that are worth searching: of its preset's space, those that it leaves at None.

    >>> from diffor import DiffoRRegressor
    >>> sorted(search_space(DiffoRRegressor("fast", batch_size=64)))
    ['learning_rate', 'n_increments', 'weight_decay']
    """
    given = estimator.get_params(deep=False)
    settings = resolve_settings(estimator.preset, given)
    left_out: tuple[str, ...] = OF_VALUES if isinstance(estimator, GradeEstimator) else ()
    if reads_images(settings.encoder):
        left_out += OF_TABLES
    spaces = {one.name: one.metadata["search"][estimator.preset] for one in fields(Settings)}
    return {
        name: space
        for name, space in spaces.items()
        if space is not None and name in given and given[name] is None and name not in left_out
    }
