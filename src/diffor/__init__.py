"""DiffoR: ordinal regression as continuous generation.

>>> import diffor
>>> diffor.DiffoRRegressor("fast").preset
'fast'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffor.core.cdf_prediction import CdfPrediction as CdfPrediction
    from diffor.core.prediction import Prediction as Prediction
    from diffor.datasets import DATASETS as DATASETS
    from diffor.datasets import load_dataset as load_dataset
    from diffor.encoders import ENCODERS as ENCODERS
    from diffor.estimators.api import DiffoRClassifier as DiffoRClassifier
    from diffor.estimators.api import DiffoRRegressor as DiffoRRegressor
    from diffor.estimators.api import OrdinalClassifier as OrdinalClassifier
    from diffor.estimators.api import OrdinalRegressor as OrdinalRegressor
    from diffor.estimators.api import load as load
    from diffor.estimators.novelty import novelty as novelty
    from diffor.estimators.tuning import tune as tune
    from diffor.estimators.uncertainty import split_uncertainty as split_uncertainty
    from diffor.methods import METHODS as METHODS
    from diffor.methods.diffor import IncrementDiffusion as IncrementDiffusion
    from diffor.metrics import METRICS as METRICS
    from diffor.reports.explanation import explain as explain

__version__ = "0.2.0"

_HOMES = {
    "CdfPrediction": "diffor.core.cdf_prediction",
    "DATASETS": "diffor.datasets",
    "METHODS": "diffor.methods",
    "load_dataset": "diffor.datasets",
    "DiffoRClassifier": "diffor.estimators.api",
    "DiffoRRegressor": "diffor.estimators.api",
    "ENCODERS": "diffor.encoders",
    "IncrementDiffusion": "diffor.methods.diffor",
    "METRICS": "diffor.metrics",
    "OrdinalClassifier": "diffor.estimators.api",
    "OrdinalRegressor": "diffor.estimators.api",
    "Prediction": "diffor.core.prediction",
    "explain": "diffor.reports.explanation",
    "load": "diffor.estimators.api",
    "novelty": "diffor.estimators.novelty",
    "split_uncertainty": "diffor.estimators.uncertainty",
    "tune": "diffor.estimators.tuning",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: `import diffor` and `diffor --help` stay quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'diffor' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
