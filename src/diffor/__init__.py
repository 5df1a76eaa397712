"""DiffoR: ordinal regression as continuous generation.

>>> import diffor
>>> diffor.DiffoRRegressor("fast").preset
'fast'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffor.cdf_prediction import CdfPrediction as CdfPrediction
    from diffor.datasets import DATASETS as DATASETS
    from diffor.datasets import load_dataset as load_dataset
    from diffor.diffusion import IncrementDiffusion as IncrementDiffusion
    from diffor.encoders import ENCODERS as ENCODERS
    from diffor.estimator import DiffoRClassifier as DiffoRClassifier
    from diffor.estimator import DiffoRRegressor as DiffoRRegressor
    from diffor.estimator import OrdinalClassifier as OrdinalClassifier
    from diffor.estimator import OrdinalRegressor as OrdinalRegressor
    from diffor.estimator import load as load
    from diffor.methods import METHODS as METHODS
    from diffor.metrics import METRICS as METRICS
    from diffor.prediction import Prediction as Prediction
    from diffor.tuning import tune as tune

__version__ = "0.1.0"

_HOMES = {
    "CdfPrediction": "diffor.cdf_prediction",
    "DATASETS": "diffor.datasets",
    "METHODS": "diffor.methods",
    "load_dataset": "diffor.datasets",
    "DiffoRClassifier": "diffor.estimator",
    "DiffoRRegressor": "diffor.estimator",
    "ENCODERS": "diffor.encoders",
    "IncrementDiffusion": "diffor.diffusion",
    "METRICS": "diffor.metrics",
    "OrdinalClassifier": "diffor.estimator",
    "OrdinalRegressor": "diffor.estimator",
    "Prediction": "diffor.prediction",
    "load": "diffor.estimator",
    "tune": "diffor.tuning",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: `import diffor` and `diffor --help` stay quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'diffor' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
