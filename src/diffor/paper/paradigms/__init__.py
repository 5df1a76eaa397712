"""The paper's four arguments against other ways of modelling, measured on data whose truth is known.

Each function trains methods on rows of a known law, DiffoR among them, and gives figures and sentences about them;
``quick=True`` takes seconds and learns next to nothing. ``dataclasses.asdict`` makes JSON values of a result, and
:func:`rebuild` a result of these.
"""

from __future__ import annotations

from diffor.paper.paradigms.collapse import MeanCollapse, mean_collapse
from diffor.paper.paradigms.dependency import DependencyError, dependency_error
from diffor.paper.paradigms.fitting import rebuild
from diffor.paper.paradigms.quantisation import QuantisationError, quantisation_error
from diffor.paper.paradigms.vocabulary import VocabularyTradeoff, vocabulary_tradeoff

__all__ = [
    "DependencyError",
    "MeanCollapse",
    "QuantisationError",
    "VocabularyTradeoff",
    "dependency_error",
    "mean_collapse",
    "quantisation_error",
    "rebuild",
    "vocabulary_tradeoff",
]
