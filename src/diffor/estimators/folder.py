"""A fitted estimator as the JSON values and tensors of its folder, and back."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from functools import partial
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
from diffor.estimators.filling import filled
from diffor.estimators.fitting import network_maker
from diffor.estimators.folder_schema import check_config
from diffor.estimators.inputs import BACKBONE, ImageReader
from diffor.estimators.rows import choose_device, is_available
from diffor.estimators.saved_params import as_json_params, check_network, from_json_params
from diffor.estimators.settings import Settings, image_choice
from diffor.estimators.trial import try_one_row
from diffor.files.schema import MisfitError
from diffor.methods.diffor.borders import Borders
from diffor.priors import FittedPriors, Read
from diffor.training.checkpoint import CheckpointError
from diffor.training.loop import History

OF_THE_MACHINE = ("checkpoint_dir", "log_to", "encoder_weights")
"""Arguments that name files, folders and addresses of the machine that a model was fitted on."""
CURE = "it was damaged or changed, so copy the whole folder again, or fit the model again"


def state_of(estimator: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the files of a fitted estimator hold: JSON values and tensors."""
    config: dict[str, Any] = {
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
        "held_out": estimator.held_out_scores_,
        "data": estimator.data_summary_,
        "conformal": None if estimator.conformal_ is None else estimator.conformal_.to_json(),
        "images": None if estimator.images_ is None else estimator.images_.inputs.to_json(),
        **_grades_state(estimator),
    }
    check_config(config, type(estimator))  # nothing is saved that would not be loaded
    beside = {} if estimator.priors_ is None else estimator.priors_.to_tensors()
    if estimator.images_ is not None:
        beside |= estimator.images_.tensors()
    return config, estimator.model_.state_dict() | beside


def restore(
    kind: Any, folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None = None
) -> Any:
    """Rebuild an estimator from what its folder holds, or say that the parts do not fit."""
    try:
        check_config(config, kind)
        check_network(folder, config, encoder)
        estimator = estimator_of(kind, config, tensors, encoder)
        try_one_row(estimator)
    except CheckpointError:
        raise
    except ImportError as error:  # a package that the user has yet to install
        raise CheckpointError(f"{folder} cannot be loaded here: {error}") from error
    except MisfitError as error:
        raise CheckpointError(f"{folder} is not as a fitted model is saved: {error}; {CURE}") from error
    except Exception as error:  # of what a stranger has written, anything may go wrong
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise CheckpointError(f"{folder}/config.json does not describe its weights ({reason}); {CURE}") from error
    return estimator


def estimator_of(kind: type, config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None) -> Any:
    """The fitted estimator that JSON values and tensors describe; ``encoder`` is the user's own, if it had one."""
    # What was a file or a folder where it was fitted is none of ours: a stranger may have named it.
    estimator: Any = kind(**(from_json_params(config["params"]) | dict.fromkeys(OF_THE_MACHINE)))
    estimator.forget()
    if encoder is not None:
        estimator.encoder = encoder
    if not is_available(estimator.device):
        estimator.device = "auto"  # trained on a GPU, used where there is none
    settings = from_json_params(config["settings"])
    estimator.settings_ = Settings(**(settings | file_name_only(settings)))
    estimator.seed_ = int(config["seed"])
    estimator.history_ = History(**config["history"])
    estimator.held_out_scores_ = config["held_out"]
    estimator.data_summary_ = config["data"]
    _restore_columns(estimator, config)
    _restore_scale(estimator, config)
    if config["conformal"] is not None:
        estimator.conformal_ = Calibration.from_json(config["conformal"])
    _restore_networks(estimator, config, tensors)
    return estimator


def file_name_only(settings: dict[str, Any]) -> dict[str, Any]:
    """Of the first weights of a network of images that there were some, not where.

    >>> file_name_only({"encoder_weights": "/home/me/resnet.pt"}), file_name_only({"encoder_weights": None})
    ({'encoder_weights': 'resnet.pt'}, {})
    """
    weights = settings.get("encoder_weights")
    return {} if weights is None else {"encoder_weights": Path(weights).name}


def _grades_state(estimator: Any) -> dict[str, Any]:
    """The names of grades, where there are any, as JSON values."""
    if not isinstance(estimator.scale_, GradeScale):
        return {}
    return {"classes": estimator.grades_.tolist(), "classes_dtype": estimator.grades_.dtype.str}


def _restore_scale(estimator: Any, config: dict[str, Any]) -> None:
    if "classes" in config:
        estimator.scale_ = GradeScale.from_json(config["scale"])
        estimator.grades_ = np.array(config["classes"], dtype=np.dtype(config["classes_dtype"]))
        if len(set(estimator.grades_.tolist())) < len(config["classes"]):
            raise MisfitError("classes must be different grades, but classes_dtype makes some of them the same")
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
    borders.check()
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
    inputs = estimator.inputs_
    read = Read(inputs.n_numbers, inputs.category_sizes)
    estimator.priors_ = FittedPriors.from_tensors(of_priors, read) if of_priors else None
    of_images = {name: tensor for name, tensor in tensors.items() if name.startswith(BACKBONE)}
    if config.get("images") is not None:
        _restore_images(estimator, ImageInputs.from_json(config["images"]), of_images)
    elif of_images:
        raise MisfitError(f"{min(of_images)} belongs to a network of images, but the model reads none")
    estimator.encoders_ = list(config["encoders"])
    beside = of_priors.keys() | of_images.keys()
    own = {name: tensor for name, tensor in tensors.items() if name not in beside}
    n_priors = 0 if estimator.priors_ is None else len(estimator.priors_.priors)
    estimator.model_ = filled(partial(_make_model, estimator, config["core"], n_priors), own)
    estimator.model_.to(choose_device(estimator.device)).eval()


def _make_model(estimator: Any, core: dict[str, Any] | None, n_priors: int) -> nn.Module:
    """The networks that a configuration describes, whose weights are still to be filled in."""
    if core is None:
        if n_priors:
            raise MisfitError("priors advise cross-fitted networks only, but there are none of these")
        maker = network_maker(estimator, fill=False)
        return make_ensemble(estimator.encoders_, estimator.inputs_, estimator.settings_, 0, 0, maker)
    for place, kind in enumerate(core["kinds"]):
        if kind["n_priors"] != (n_priors if kind["settings"]["uses_priors"] else 0):
            raise MisfitError(f"core.kinds[{place}].n_priors must be that of the priors, {n_priors}, or 0 without")
    return make_core(core, estimator.inputs_)


def _restore_images(estimator: Any, inputs: ImageInputs, tensors: dict[str, Tensor]) -> None:
    """Read images as before, with the frozen network of these weights if there was one."""
    frozen = None
    if estimator.settings_.freeze_backbone:
        make = partial(image_choice(estimator.settings_, estimator.encoder).make, fill=False)
        frozen = filled(make, {name.removeprefix(BACKBONE): tensor for name, tensor in tensors.items()})
        frozen.eval().to(choose_device(estimator.device))
    elif tensors:
        raise MisfitError(f"{min(tensors)} belongs to a frozen network, but freeze_backbone is false")
    cores = os.cpu_count() or 1
    if inputs.n_workers is not None and inputs.n_workers > cores:  # processes of a larger machine, or of a hostile file
        inputs = replace(inputs, n_workers=cores)
    estimator.images_ = ImageReader(inputs, frozen)
