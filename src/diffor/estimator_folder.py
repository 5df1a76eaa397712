"""A fitted estimator as the JSON values and tensors of its folder, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import diffor
from diffor.conformal import Calibration
from diffor.encoders import Guide, TabularInputs
from diffor.encoders.image_inputs import ImageInputs
from diffor.ensemble import make_ensemble
from diffor.passed_inputs import BACKBONE, ImageReader
from diffor.presets import Settings, image_choice
from diffor.saved_params import as_json_params, from_json_params
from diffor.train import History


def state_of(estimator: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the files of a fitted estimator hold: JSON values and tensors."""
    config = {
        "version": diffor.__version__,
        "estimator": type(estimator).__name__,
        # Where a run was logged is no part of the model, and addresses may hold passwords.
        "params": as_json_params(estimator.get_params(deep=False) | {"log_to": None}, estimator.seed_),
        "settings": as_json_params(asdict(estimator.settings_), estimator.seed_),
        "columns": estimator.inputs_.to_json(),
        "named_columns": hasattr(estimator, "feature_names_in_"),
        "scale": estimator.scale_.to_json(),
        "encoders": estimator.encoders_,
        "seed": estimator.seed_,
        "history": asdict(estimator.history_),
        "data": estimator.data_summary_,
        "conformal": None if estimator.conformal_ is None else estimator.conformal_.to_json(),
        "images": None if estimator.images_ is None else estimator.images_.inputs.to_json(),
        **estimator._extra_state(),
    }
    beside = {} if estimator.guide_ is None else estimator.guide_.to_tensors()
    if estimator.images_ is not None:
        beside |= estimator.images_.tensors()
    return config, estimator.model_.state_dict() | beside


def estimator_of(kind: type, config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None) -> Any:
    """The fitted estimator that JSON values and tensors describe; ``encoder`` is the user's own, if it had one."""
    estimator: Any = kind(**from_json_params(config["params"]))
    if encoder is not None:
        estimator.encoder = encoder
    if estimator.device.startswith("cuda") and not torch.cuda.is_available():
        estimator.device = "auto"  # trained on a GPU, used where there is none
    estimator.settings_ = Settings(**from_json_params(config["settings"]))
    estimator.seed_ = int(config["seed"])
    estimator.history_ = History(**config["history"])
    estimator.data_summary_ = config.get("data")  # folders of older versions have none
    _restore_columns(estimator, config)
    estimator._restore_extra(config)
    if config.get("conformal") is not None:  # folders of older versions have no such entry
        estimator.conformal_ = Calibration.from_json(config["conformal"])
    _restore_networks(estimator, config, tensors)
    return estimator


def _restore_columns(estimator: Any, config: dict[str, Any]) -> None:
    estimator.inputs_ = TabularInputs.from_json(config["columns"])
    names = [column.name for column in estimator.inputs_.columns]
    if config.get("images") is None:
        estimator.n_features_in_ = len(names)
    if config["named_columns"]:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def _restore_networks(estimator: Any, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """The guide, what reads images, and the members, each with its own tensors."""
    of_guide = {name: tensor for name, tensor in tensors.items() if name.startswith("guide.")}
    estimator.guide_ = Guide.from_tensors(of_guide) if of_guide else None
    of_images = {name: tensor for name, tensor in tensors.items() if name.startswith(BACKBONE)}
    if config.get("images") is not None:
        _restore_images(estimator, ImageInputs.from_json(config["images"]), of_images)
    estimator.encoders_ = list(config["encoders"])
    maker = estimator._network_maker(fill=False)
    estimator.model_ = make_ensemble(estimator.encoders_, estimator.inputs_, estimator.settings_, 0, 0, maker)
    beside = of_guide.keys() | of_images.keys()
    estimator.model_.load_state_dict({name: tensor for name, tensor in tensors.items() if name not in beside})
    estimator.model_.to(estimator._device()).eval()


def _restore_images(estimator: Any, inputs: ImageInputs, tensors: dict[str, Tensor]) -> None:
    """Read images as before, with the frozen network of these weights if there was one."""
    frozen = None
    if estimator.settings_.freeze_backbone:
        frozen = image_choice(estimator.settings_, estimator.encoder).make(fill=False)
        frozen.load_state_dict({name.removeprefix(BACKBONE): tensor for name, tensor in tensors.items()})
        frozen.eval().to(estimator._device())
    estimator.images_ = ImageReader(inputs, frozen)
