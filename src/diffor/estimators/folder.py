"""A fitted estimator as the JSON values and tensors of its folder, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import diffor
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs
from diffor.encoders.images.inputs import ImageInputs
from diffor.encoders.tabular.fold_networks import FoldNetworks, NetworkSettings
from diffor.estimators.conformal import Calibration
from diffor.estimators.cross_fitted import CrossFitted
from diffor.estimators.ensemble import make_ensemble
from diffor.estimators.fitting import network_maker
from diffor.estimators.inputs import BACKBONE, ImageReader
from diffor.estimators.rows import choose_device
from diffor.estimators.saved_params import as_json_params, check_network, from_json_params
from diffor.estimators.settings import Settings, image_choice
from diffor.methods.diffor.borders import Borders
from diffor.priors import FittedPriors
from diffor.training.checkpoint import CheckpointError
from diffor.training.loop import History


def state_of(estimator: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the files of a fitted estimator hold: JSON values and tensors."""
    config = {
        "version": diffor.__version__,
        "estimator": type(estimator).__name__,
        # Where a run was logged is no part of the model, and addresses may hold passwords.
        "params": as_json_params(estimator.get_params(deep=False) | {"log_to": None}, estimator.seed_),
        "settings": as_json_params(vars(estimator.settings_), estimator.seed_),
        "columns": estimator.inputs_.to_json(),
        "named_columns": hasattr(estimator, "feature_names_in_"),
        "scale": estimator.scale_.to_json(),
        "encoders": estimator.encoders_,
        "core": core_state(estimator.model_) if isinstance(estimator.model_, CrossFitted) else None,
        "seed": estimator.seed_,
        "history": asdict(estimator.history_),
        "data": estimator.data_summary_,
        "conformal": None if estimator.conformal_ is None else estimator.conformal_.to_json(),
        "images": None if estimator.images_ is None else estimator.images_.inputs.to_json(),
        **_grades_state(estimator),
    }
    beside = {} if estimator.priors_ is None else estimator.priors_.to_tensors()
    if estimator.images_ is not None:
        beside |= estimator.images_.tensors()
    return config, estimator.model_.state_dict() | beside


def restore(
    kind: Any, folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None = None
) -> Any:
    """Rebuild an estimator from what its folder holds, or say that the parts do not fit."""
    check_network(folder, config, encoder)
    try:
        return estimator_of(kind, config, tensors, encoder)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{folder}/config.json does not describe its weights ({reason})") from error


def estimator_of(kind: type, config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None) -> Any:
    """The fitted estimator that JSON values and tensors describe; ``encoder`` is the user's own, if it had one."""
    estimator: Any = kind(**from_json_params(config["params"]))
    estimator.forget()
    if encoder is not None:
        estimator.encoder = encoder
    if estimator.device.startswith("cuda") and not torch.cuda.is_available():
        estimator.device = "auto"  # trained on a GPU, used where there is none
    estimator.settings_ = Settings(**from_json_params(config["settings"]))
    estimator.seed_ = int(config["seed"])
    estimator.history_ = History(**config["history"])
    estimator.data_summary_ = config["data"]
    _restore_columns(estimator, config)
    _restore_scale(estimator, config)
    if config["conformal"] is not None:
        estimator.conformal_ = Calibration.from_json(config["conformal"])
    _restore_networks(estimator, config, tensors)
    return estimator


def _grades_state(estimator: Any) -> dict[str, Any]:
    """The names of grades, where there are any, as JSON values."""
    if not isinstance(estimator.scale_, GradeScale):
        return {}
    return {"classes": estimator.grades_.tolist(), "classes_dtype": estimator.grades_.dtype.str}


def _restore_scale(estimator: Any, config: dict[str, Any]) -> None:
    if "classes" in config:
        estimator.scale_ = GradeScale.from_json(config["scale"])
        estimator.grades_ = np.array(config["classes"], dtype=np.dtype(config["classes_dtype"]))
    else:
        estimator.scale_ = TargetScale.from_json(config["scale"])


def _restore_columns(estimator: Any, config: dict[str, Any]) -> None:
    estimator.inputs_ = TabularInputs.from_json(config["columns"])
    names = [column.name for column in estimator.inputs_.columns]
    if config.get("images") is None:
        estimator.n_features_in_ = len(names)
    if config["named_columns"]:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def core_state(model: CrossFitted) -> dict[str, Any]:
    """The shape of cross-fitted networks, as JSON values."""
    kinds = [
        {"settings": kind.settings._asdict(), "n_folds": kind.n_folds, "n_priors": kind.factors.shape[1]}
        for kind in model.networks
    ]
    return {"borders": model.borders.to_json(), "kinds": kinds}


def make_core(state: dict[str, Any], inputs: TabularInputs) -> CrossFitted:
    """Cross-fitted networks of this shape, whose weights are still to be filled in."""
    borders = Borders.from_json(state["borders"])
    positions = torch.zeros(len(borders))
    kinds = [
        FoldNetworks(int(kind["n_folds"]), inputs.number_edges, inputs.category_sizes, positions,
                     [1.0] * int(kind["n_priors"]), NetworkSettings(**kind["settings"]))
        for kind in state["kinds"]
    ]  # fmt: skip
    return CrossFitted(borders, kinds)


def _restore_networks(estimator: Any, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """The priors, what reads images, and the networks, each with its own tensors."""
    of_priors = {name: tensor for name, tensor in tensors.items() if name.startswith("prior.")}
    estimator.priors_ = FittedPriors.from_tensors(of_priors) if of_priors else None
    of_images = {name: tensor for name, tensor in tensors.items() if name.startswith(BACKBONE)}
    if config.get("images") is not None:
        _restore_images(estimator, ImageInputs.from_json(config["images"]), of_images)
    estimator.encoders_ = list(config["encoders"])
    if config["core"] is not None:
        estimator.model_ = make_core(config["core"], estimator.inputs_)
    else:
        maker = network_maker(estimator, fill=False)
        estimator.model_ = make_ensemble(estimator.encoders_, estimator.inputs_, estimator.settings_, 0, 0, maker)
    beside = of_priors.keys() | of_images.keys()
    estimator.model_.load_state_dict({name: tensor for name, tensor in tensors.items() if name not in beside})
    estimator.model_.to(choose_device(estimator.device)).eval()


def _restore_images(estimator: Any, inputs: ImageInputs, tensors: dict[str, Tensor]) -> None:
    """Read images as before, with the frozen network of these weights if there was one."""
    frozen = None
    if estimator.settings_.freeze_backbone:
        frozen = image_choice(estimator.settings_, estimator.encoder).make(fill=False)
        frozen.load_state_dict({name.removeprefix(BACKBONE): tensor for name, tensor in tensors.items()})
        frozen.eval().to(choose_device(estimator.device))
    estimator.images_ = ImageReader(inputs, frozen)
