"""Methods that a benchmark can compare, ours and other people's, behind one contract.

``PEERS`` lists them by name. A peer's module is imported when the peer is asked for, so that a process that runs one
method does not carry the packages of all.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from diffor.bench.peers.problem import Fitted, Peer, Problem
from diffor.errors import UserError, did_you_mean

_HOMES: dict[str, tuple[str, ...]] = {
    "ours:OURS": ("diffor", "diffor-fast", "diffor-accurate", "diffor-paper"),
    "constants:CONSTANTS": ("constant",),
    "trees:TREES": (
        "lightgbm-quantile",
        "lightgbm-classifier",
        "catboost-uncertainty",
        "catboost-quantile",
        "catboost-classifier",
        "hist-gradient-boosting",
    ),
    "xgboost_trees:XGBOOST_TREES": ("xgboost-quantile", "xgboost-classifier"),
    "cumulative_trees:CUMULATIVE_TREES": ("lightgbm-cumulative", "xgboost-cumulative", "catboost-cumulative"),
    "forests:FORESTS": ("quantile-forest",),
    "foreign:FOREIGN": ("treeffuser", "ngboost"),
    "densities:DENSITIES": ("deep-ensemble", "mdn"),
    "card:CARD": ("card",),
    "engression_networks:ENGRESSION": ("engression",),
    "tabular_networks:TABULAR_NETWORKS": ("realmlp", "tabm"),
    "ordinal_linear:ORDINAL_LINEAR": ("mord", "ordered-model"),
    "ordinal_library:ORDINAL_LIBRARY": ("skordinal-nnpom", "skordinal-nnop"),
    "ordinal_networks:ORDINAL_NETWORKS": ("coral", "corn"),
}
"""Where each peer stands: the module of this package, its table, and the names in it."""


class _Table(Mapping[str, Peer]):
    """Peers by name, imported when they are looked up."""

    def __init__(self) -> None:
        self._homes = {name: home for home, names in _HOMES.items() for name in names}

    def __getitem__(self, name: str) -> Peer:
        module, _, table = self._homes[name].partition(":")
        listed: tuple[Peer, ...] = getattr(importlib.import_module(f"{__name__}.{module}"), table)
        return next(peer for peer in listed if peer.name == name)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


METHOD = "method:"
"""What comes before the name of a method that is compared on the shared encoder."""

PEERS: Mapping[str, Peer] = _Table()
"""Peers by name."""


def find_peer(name: str) -> Peer:
    """The peer of a name; ``package.module:ATTRIBUTE`` names one that stands outside the table.

    ``method:NAME`` is the method NAME of ``diffor methods`` on the shared encoder.

    >>> find_peer("diffor-fast").tasks
    ('value', 'grades')
    >>> find_peer("diffor.bench.peers.ours:OURS")
    Traceback (most recent call last):
    ValueError: diffor.bench.peers.ours:OURS must be a Peer, but it is a tuple
    """
    if name in PEERS:
        return PEERS[name]
    if name.startswith(METHOD):
        return _find_method(name.removeprefix(METHOD))
    if ":" not in name:
        listed = ", ".join(sorted(PEERS))
        raise UserError(
            f"method must be one of {listed} or module:ATTRIBUTE, but got {name!r}{did_you_mean(name, PEERS)}"
        )
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"method {name!r} must be importable, but got {error}; check module and attribute") from error
    if not isinstance(found, Peer):
        raise UserError(f"{name} must be a Peer, but it is a {type(found).__name__}")
    return found


def _find_method(name: str) -> Peer:
    from diffor.bench.peers.methods_on_encoder import find_method
    from diffor.methods import METHODS

    if name not in METHODS:
        raise UserError(
            f"{METHOD}NAME must name a method of `diffor methods`, but got {name!r}{did_you_mean(name, METHODS)}"
        )
    return find_method(name)


__all__ = ["METHOD", "PEERS", "Fitted", "Peer", "Problem", "find_peer"]
