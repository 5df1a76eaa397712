"""The rows of a search for settings: which are fitted on and which are scored, the same for every trial."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from diffor.core.grades import find_grades, grade_codes
from diffor.core.table import as_table, check_weights
from diffor.errors import UserError
from diffor.estimators.api import Estimator
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.saved_params import as_json_params
from diffor.estimators.settings import Space, resolve_settings
from diffor.estimators.values import as_values

HELD_BACK = 0.2
"""Share of the rows on which trials are compared, where there are no folds."""
MIN_ROWS = 20
OF_THE_RUN = ("verbose", "time_limit", "checkpoint_dir", "log_to", "n_jobs", "device")
"""Parameters that do not change what is fitted, so that a study may be continued with others."""


class TuningData:
    """The rows of a search, with what belongs to them, fitted and scored in parts."""

    def __init__(self, estimator: Estimator, X: Any, y: Any, sample_weight: Any, side: Mapping[str, Any]) -> None:
        self.X, self.n = X, _num_samples(X)
        self.y = np.asarray(y)
        if len(self.y) != self.n:
            raise UserError(f"X and y must be equally long, but got {self.n} rows and {len(self.y)} targets")
        if self.n < MIN_ROWS:
            raise UserError(f"tune needs at least {MIN_ROWS} rows, but got {self.n}; fit the preset as it is")
        self.weights = check_weights(sample_weight, self.n)
        self.side = {name: np.asarray(column) for name, column in side.items()}
        self.grades: list[Any] | None = None
        if isinstance(estimator, GradeEstimator):
            counted = None if self.weights is None else self.weights > 0
            classes = find_grades(y, estimator.grades, counted)
            self.grades, self.truth = classes.tolist(), grade_codes(y, classes, "y", counted).astype(np.float64)
        else:
            self.truth = as_values(y, "y")

    def split(self, n_folds: int | None, random_state: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Pairs of rows to fit on and rows to score on, the same for every trial."""
        order = np.random.default_rng(random_state).permutation(self.n)
        if n_folds is None:
            held = np.sort(order[: max(round(HELD_BACK * self.n), 1)])
            return [(np.setdiff1d(order, held), held)]
        if n_folds > self.n:
            raise UserError(f"n_folds must be at most the number of rows, {self.n}, but got n_folds={n_folds}")
        return [(np.setdiff1d(order, held), np.sort(held)) for held in np.array_split(order, n_folds)]

    def fit(self, model: Any, places: NDArray[Any] | None) -> None:
        """Fit on some of the rows, or on all."""
        chosen = np.arange(self.n) if places is None else places
        weights = None if self.weights is None else self.weights[chosen]
        side = {name: column[chosen] for name, column in self.side.items()}
        table = self.X if places is None else _safe_indexing(self.X, chosen)
        model.fit(table, self.y[chosen], weights, **side)

    def score(self, model: Any, places: NDArray[Any]) -> float:
        """Mean CRPS of some rows; of grades, as places in their order, it is the ranked probability score."""
        side = {name: column[places] for name, column in self.side.items()}
        each = model.predict_distribution(_safe_indexing(self.X, places), **side).crps(self.truth[places])
        weights = None if self.weights is None else self.weights[places]
        # Rows of weight zero alone say nothing.
        return float(np.average(each, weights=weights if weights is not None and weights.sum() > 0 else None))

    def fingerprint(self, base: Any, parts: Any, space: Space, random_state: int) -> str:
        """Names rows, settings and split, so that a study of another search is refused."""
        params = {key: value for key, value in base.get_params(deep=False).items() if key not in OF_THE_RUN}
        facts = [type(base).__name__, as_json_params(params, 0), [str(one) for one in space.items()], len(parts),
                 random_state, self.n]  # fmt: skip
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
        digest.update(self.truth.tobytes())
        for column in (self.weights, *self.side.values()):
            digest.update(b"" if column is None else np.asarray(column, dtype=np.float64).tobytes())
        if not resolve_settings(base.preset, params).reads_images:
            digest.update(pd.util.hash_pandas_object(as_table(self.X), index=False).to_numpy().tobytes())
        return digest.hexdigest()
