"""Estimators of values as skpro's probabilistic regressors, so that its metrics, tuners and pipelines take them.

This module needs skpro, which is optional; nothing else in the package imports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from diffor.errors import UserTypeError
from diffor.estimators.api import DiffoRRegressor
from diffor.estimators.values import ValueEstimator

try:
    from skpro.distributions.empirical import Empirical
    from skpro.regression.base import BaseProbaRegressor
except ImportError as error:
    raise ImportError('the adapter needs the package skpro: pip install "diffor[skpro]"') from error


class SkproRegressor(BaseProbaRegressor):
    """An estimator of values with the face of skpro's regressors.

    ``estimator`` is a :class:`~diffor.DiffoRRegressor` (of the defaults if None) or a
    :class:`~diffor.OrdinalRegressor`; it stays as it is, ``estimator_`` is the fitted one. Tuners reach its settings as
    ``estimator__n_increments``. Distributions are :class:`~skpro.distributions.Empirical`, of ``n_samples`` draws (as
    many as the estimator's preset has if None) or, of a distribution in closed form, of 100 even quantiles: skpro has
    none that is piecewise linear with steps. Means, variances, quantiles and intervals are those of the closed form.

    >>> import pandas as pd
    >>> from diffor import DiffoRRegressor
    >>> from diffor.estimators.skpro import SkproRegressor
    >>> X = pd.DataFrame({"size": [i / 50 for i in range(50)]})
    >>> inner = DiffoRRegressor("fast", prior=None, max_steps=10, random_state=0, verbose=0)
    >>> model = SkproRegressor(inner, n_samples=20).fit(X, X[["size"]])
    >>> model.predict_proba(X[:3]).shape, model.predict_interval(X[:3], coverage=0.9).shape
    ((3, 1), (3, 2))
    """

    _tags = {  # noqa: RUF012 - skpro reads a plain dictionary of the class
        "capability:multioutput": False,
        "capability:missing": True,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
        "python_dependencies": ["torch"],
    }

    def __init__(self, estimator: ValueEstimator | None = None, n_samples: int | None = None) -> None:
        self.estimator = estimator
        self.n_samples = n_samples
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> SkproRegressor:
        self.estimator_ = DiffoRRegressor() if self.estimator is None else clone(self.estimator)
        if not isinstance(self.estimator_, ValueEstimator):
            raise UserTypeError(
                "estimator must be a DiffoRRegressor or an OrdinalRegressor, but got "
                f"{type(self.estimator_).__name__}; grades have no distribution in skpro"
            )
        self._y_columns = y.columns
        self.estimator_.fit(_with_names(X), y.to_numpy()[:, 0])
        return self

    def _frame(self, values: Any, X: pd.DataFrame, columns: Any) -> pd.DataFrame:
        frame: pd.DataFrame = pd.DataFrame(np.asarray(values, dtype=np.float64), index=X.index, columns=columns)
        return frame

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        """Expected values, which is what skpro's regressors answer with."""
        return self._frame(self._prediction(X).mean[:, None], X, self._y_columns)

    def _prediction(self, X: pd.DataFrame) -> Any:
        return self.estimator_.predict_distribution(_with_names(X), self.n_samples)

    def _predict_proba(self, X: pd.DataFrame) -> Any:
        samples = self._prediction(X).samples.astype(np.float64)  # (n, m)
        n_rows, n_draws = samples.shape
        draws, rows = np.repeat(np.arange(n_draws), n_rows), np.tile(np.arange(n_rows), n_draws)
        levels = [X.index.get_level_values(level)[rows] for level in range(X.index.nlevels)]
        index = pd.MultiIndex.from_arrays([draws, *levels], names=["draw", *X.index.names])
        table = pd.DataFrame(samples.T.reshape(-1, 1), index=index, columns=self._y_columns)
        return Empirical(table, index=X.index, columns=self._y_columns)

    def _predict_quantiles(self, X: pd.DataFrame, alpha: list[float]) -> pd.DataFrame:
        """Quantiles as the estimator has them, between the draws rather than at them."""
        columns = self._get_columns(method="predict_quantiles", alpha=alpha)
        return self._frame(self._prediction(X).quantile(alpha), X, columns)

    def _predict_interval(self, X: pd.DataFrame, coverage: list[float]) -> pd.DataFrame:
        """Between the quantiles that leave out equal shares, which is what skpro means by an interval."""
        levels = [level for one in coverage for level in ((1 - one) / 2, (1 + one) / 2)]
        columns = self._get_columns(method="predict_interval", coverage=coverage)
        return self._frame(self._prediction(X).quantile(levels), X, columns)

    def _predict_var(self, X: pd.DataFrame) -> pd.DataFrame:
        return self._frame(self._prediction(X).std[:, None] ** 2, X, self._y_columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Settings for skpro's own tests: small and quick."""
        quick: dict[str, Any] = {
            "preset": "fast",
            "prior": None,
            "max_steps": 5,
            "n_samples": 16,
            "random_state": 0,
            "verbose": 0,
        }
        return [
            {"estimator": DiffoRRegressor(**quick)},
            {"estimator": DiffoRRegressor(**quick, n_increments=32), "n_samples": 8},
        ]


def _with_names(X: pd.DataFrame) -> pd.DataFrame:
    """The table with text for the names of its columns, as scikit-learn wants all of them."""
    named: pd.DataFrame = X.set_axis([str(name) for name in X.columns], axis=1)
    return named
