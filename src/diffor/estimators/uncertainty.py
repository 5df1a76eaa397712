"""Where uncertainty comes from: what networks disagree about, and what each of them is unsure of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from diffor.errors import UserError
from diffor.estimators.cross_fitted import CrossFitted
from diffor.methods.diffor.one_call import as_prediction
from diffor.training.loop import CHEAP_SHARE, in_chunks, limit_threads

if TYPE_CHECKING:
    from diffor.estimators.base import OrdinalEstimator

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Uncertainty:
    """The variance of each row's answer in two parts; of grades, in units of a grade. **Shape:** each ``(n,)``."""

    epistemic: Array
    """The part by which networks disagree: more rows like this one would make it smaller."""
    aleatoric: Array
    """The part that each network says there is: more rows would not change it, more columns might."""

    @property
    def total(self) -> Array:
        """Variance of the answer."""
        return self.epistemic + self.aleatoric

    @property
    def share(self) -> Array:
        """Share of the variance that is epistemic; 0 where there is no variance."""
        return self.epistemic / np.where(self.total > 0, self.total, 1.0)


def split_uncertainty(model: OrdinalEstimator, X: Any) -> Uncertainty:
    """How much of each answer's variance is disagreement between networks, and how much each network's own doubt.

    A model of tables asks networks of several kinds, K of each, that have learned from different rows. Its answer is
    their weighted mixture, so by the law of total variance its variance is that of their means plus the mean of their
    variances, both in closed form. Recalibration, which makes the mixture wider or narrower, is shared out in
    proportion: the parts add up to ``model.predict_distribution(X).std ** 2``.

    Networks share most of their rows and their priors, so the epistemic part is a lower bound: it tells rows apart
    rather than being a size. Of rows unlike all of training :func:`~diffor.novelty` says more.

    Parameters
    ----------
    model : DiffoRRegressor or DiffoRClassifier
        A fitted model of tables with two or more networks.
    X : table
        Rows to ask about. **Shape:** ``(n, p)``.

    Returns
    -------
    Uncertainty
        ``epistemic`` and ``aleatoric``, their sum ``total``, and the epistemic ``share``.

    Examples
    --------
    >>> from diffor import DiffoRRegressor, split_uncertainty
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = DiffoRRegressor("fast", max_steps=20, verbose=0, random_state=0).fit(X, X[:, 0])
    >>> parts = split_uncertainty(model, X[:5])
    >>> np.allclose(parts.total, model.predict_distribution(X[:5]).std ** 2)
    True
    """
    check_is_fitted(model, "model_")
    core = model.model_
    if not isinstance(core, CrossFitted) or sum(kind.n_folds for kind in core.networks) < 2:
        raise UserError(
            "split_uncertainty compares the networks of DiffoR's own models of tables, but this one has "
            f"{'one network' if isinstance(core, CrossFitted) else f'the method {model.settings_.method!r}'}; "
            "fit DiffoRRegressor or DiffoRClassifier with a table"
        )
    parts = [(np.zeros(0), np.zeros(0))]
    for block in model.row_blocks(X):
        with limit_threads(model.n_jobs):
            parts += [_split(model, core, rows) for rows in in_chunks(block, CHEAP_SHARE)]
    epistemic, aleatoric = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Uncertainty(epistemic, aleatoric)


def _split(model: OrdinalEstimator, core: CrossFitted, rows: Any) -> tuple[Array, Array]:
    """Both parts of the variance of some rows. **Shape:** n rows -> two of ``(n,)``."""
    means, variances, weights = [], [], []
    kinds = core.each(rows.inputs)
    for kind, weight in zip(kinds, core.weights.tolist(), strict=True):
        for survival in kind:
            answer = as_prediction(core.borders, survival).map(model.scale_.unrounded)
            means.append(answer.mean)
            variances.append(answer.std**2)
            weights.append(weight / len(kind))
    shares = np.array(weights) / np.sum(weights)
    centre = shares @ np.array(means)
    between, within = shares @ (np.array(means) - centre) ** 2, shares @ np.array(variances)
    pooled = core.pool([kind.mean(dim=0) for kind in kinds])
    whole = as_prediction(core.borders, pooled).map(model.scale_.unrounded).std ** 2
    epistemic = whole * between / np.maximum(between + within, np.finfo(float).tiny)
    return epistemic, whole - epistemic
