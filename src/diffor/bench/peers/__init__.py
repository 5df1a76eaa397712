"""Methods that a benchmark can compare, behind one contract: our own, and adapters to other people's packages.

``PEERS`` lists them by name. The module of a peer is imported when it is first fitted, so that a process that runs one
method does not carry the packages of all.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from diffor.bench.peers.problem import Fitted, Peer, Problem
from diffor.errors import UserError, did_you_mean

VALUE, GRADES, BOTH = ("value",), ("grades",), ("value", "grades")
METHOD = "method:"
"""What comes before the name of a method that is compared on the shared encoder."""
ESTIMATORS = ("diffor.estimators.api",)
SCIPY, SKLEARN = (
    ("scipy.special", "scipy.stats"),
    ("sklearn.ensemble", "sklearn.preprocessing", "sklearn.model_selection"),
)


def _peer(
    name: str, description: str, tasks: tuple[str, ...], fit: str, package: str | None = None,
    imports: tuple[str, ...] = (), is_ours: bool = False, is_trained_here: bool = False, **fixed: Any,
) -> Peer:  # fmt: skip
    """A peer whose ``fit`` stands in ``module:function`` of this package and is given some settings beforehand."""
    home, _, function = fit.partition(":")
    home = f"{__name__}.{home}"

    def run(problem: Problem, **settings: Any) -> Fitted:
        fitted: Fitted = getattr(importlib.import_module(home), function)(problem, **{**fixed, **settings})
        return fitted

    return Peer(name, description, tasks, run, package, (*imports, home), is_ours, is_trained_here or is_ours)


def _preset(name: str, preset: str) -> Peer:
    return _peer(name, f"DiffoR with the preset {preset}", BOTH, "methods:fit_preset", None,
                 (*ESTIMATORS, *SCIPY, *SKLEARN), is_ours=True, preset=preset)  # fmt: skip


def _alias(name: str, method: str, description: str, tasks: tuple[str, ...], **fixed: Any) -> Peer:
    return _peer(name, f"{description} on the shared encoder", tasks, "methods:fit_method", None,
                 (*ESTIMATORS, *SCIPY), is_trained_here=True, method=method, **fixed)  # fmt: skip


def _boosted(title: str, package: str) -> Iterator[Peer]:
    library, kinds = title.lower(), (
        ("quantile", "19 quantiles", VALUE, "fit_quantiles"),
        ("classifier", "one class per grade", GRADES, "fit_classifier"),
        ("cumulative", "one model for each border between grades", GRADES, "fit_cumulative"),
    )  # fmt: skip
    for kind, words, tasks, fit in kinds:
        yield _peer(f"{library}-{kind}", f"{title}, {words}", tasks, f"trees:{fit}", package, (library,),
                    library=library)  # fmt: skip


_LISTED = (
    _preset("diffor", "balanced"),
    _preset("diffor-fast", "fast"),
    _preset("diffor-accurate", "accurate"),
    _preset("diffor-paper", "paper"),
    _alias("deep-ensemble", "value-gaussian", "Five Gaussians by likelihood, pooled", VALUE, n_members=5),
    _alias("mdn", "mdn", "Mixture density network", VALUE),
    _alias("card", "card", "CARD with all of its 1,000 times", VALUE, n_times=1000),
    _alias("coral", "coral", "CORAL", GRADES),
    _alias("corn", "corn", "CORN", GRADES),
    _peer("constant", "distribution of the training targets, the same for every row", BOTH, "constants:fit_constant"),
    *_boosted("LightGBM", "lightgbm"),
    *_boosted("CatBoost", "catboost"),
    *_boosted("XGBoost", "xgboost-cpu"),
    _peer("catboost-uncertainty", "CatBoost, a Gaussian with virtual ensembles", VALUE,
          "trees:fit_catboost_uncertainty", "catboost", ("catboost",)),
    _peer("hist-gradient-boosting", "scikit-learn's histogram trees, 19 quantiles or one class per grade", BOTH,
          "trees:fit_hist_gradient_boosting", None, SKLEARN),
    _peer("quantile-forest", "quantile regression forest", VALUE, "trees:fit_quantile_forest", "quantile-forest",
          ("quantile_forest",)),
    _peer("treeffuser", "diffusion with LightGBM scores, in an environment of its own", VALUE,
          "foreign:fit_treeffuser", "treeffuser"),
    _peer("ngboost", "natural gradient boosting, in an environment of its own", BOTH, "foreign:fit_ngboost", "ngboost"),
    _peer("engression", "a network with noise among its inputs, trained by the energy score", VALUE,
          "tabular_networks:fit_engression", "engression", ("engression",)),
    _peer("realmlp", "RealMLP with tuned defaults, 19 quantiles or one class per grade", BOTH,
          "tabular_networks:fit_realmlp", "pytabkit", ("pytabkit",)),
    _peer("tabm", "TabM, 32 submodels that share weights, 19 quantiles or one class per grade", BOTH,
          "tabular_networks:fit_tabm", "tabm", ("tabm", "rtdl_num_embeddings", *SKLEARN)),
    _peer("mord", "ordinal logistic regression with all thresholds", GRADES, "ordinal_linear:fit_mord", "mord",
          ("mord",)),
    _peer("ordered-model", "ordered logit by maximum likelihood", GRADES, "ordinal_linear:fit_ordered_model",
          "statsmodels", ("statsmodels.miscmodels.ordinal_model", "scipy.linalg")),
    *(_peer(f"skordinal-{name.lower()}", f"skordinal, a network {words}", GRADES, "ordinal_linear:fit_skordinal",
            "skordinal", ("skordinal.classifiers",), classifier=name)
      for name, words in (("NNPOM", "under proportional odds"),
                          ("NNOP", "with an output for each border between grades"))),
)  # fmt: skip
PEERS: dict[str, Peer] = {peer.name: peer for peer in _LISTED}
"""Peers by name. A deep ensemble, mixtures of Gaussians, CARD, CORAL and CORN are methods of ours under short names."""


def find_peer(name: str) -> Peer:
    """The peer of a name; ``package.module:ATTRIBUTE`` names one that stands outside the table.

    ``method:NAME`` is the method NAME of ``diffor methods`` on the shared encoder.

    >>> find_peer("diffor-fast").tasks
    ('value', 'grades')
    """
    if name in PEERS:
        return PEERS[name]
    if name.startswith(METHOD):
        return _find_method(name.removeprefix(METHOD))
    if ":" not in name:
        raise UserError(f"method must be one of {', '.join(sorted(PEERS))} or module:ATTRIBUTE, but got {name!r}"
                        f"{did_you_mean(name, PEERS)}")  # fmt: skip
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"method {name!r} must be importable, but {error}; check module and attribute") from error
    if not isinstance(found, Peer):
        raise UserError(f"{name} must be a Peer, but it is a {type(found).__name__}")
    return found


def _find_method(name: str) -> Peer:
    from diffor.methods import METHODS

    if name not in METHODS:
        raise UserError(
            f"{METHOD}NAME must name a method of `diffor methods`, but got {name!r}{did_you_mean(name, METHODS)}"
        )
    listed = METHODS[name]
    label = "A reconstruction: " if listed.is_reconstruction else ""
    return _peer(METHOD + name, f"{label}{listed.title} on the shared encoder ({listed.paper})", listed.tasks,
                 "methods:fit_method", None, (*ESTIMATORS, *SCIPY), listed.family == "increments", True,
                 method=name)  # fmt: skip


__all__ = ["METHOD", "PEERS", "Fitted", "Peer", "Problem", "find_peer"]
