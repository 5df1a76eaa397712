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
from diffor.encoders.images.choice import NETWORK
from diffor.encoders.images.inputs import ImageInputs
from diffor.encoders.images.networks import IMAGE_ENCODERS
from diffor.encoders.tabular.fold_networks import FoldNetworks, NetworkSettings
from diffor.estimators.conformal import Calibration
from diffor.estimators.cross_fitted import CrossFitted
from diffor.estimators.ensemble import make_ensemble
from diffor.estimators.filling import filled
from diffor.estimators.fitting import network_maker
from diffor.estimators.folder_schema import check_config
from diffor.estimators.rows import BACKBONE, ImageReader, choose_device, is_available
from diffor.estimators.saved_params import as_json_params, from_json_params
from diffor.estimators.settings import Settings, image_choice
from diffor.files.schema import MisfitError
from diffor.methods import METHODS
from diffor.methods.diffor.borders import Borders
from diffor.priors import FittedPriors, PriorRows, Read
from diffor.training.checkpoint import CheckpointError
from diffor.training.loop import History, limit_threads

OF_THE_MACHINE = ("checkpoint_dir", "log_to", "encoder_weights")
"""Arguments that name files, folders and addresses of the machine that a model was fitted on."""
CURE = "it was damaged or changed, so copy the whole folder again, or fit the model again"
TRIAL_SIDE = 64
"""Pixels of the image that convolutional networks are asked about before a model is handed out."""


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
        "core": _core_state(estimator.model_) if isinstance(estimator.model_, CrossFitted) else None,
        "seed": estimator.seed_,
        "history": asdict(estimator.history_),
        "held_out": estimator.held_out_scores_,
        "data": estimator.data_summary_,
        "conformal": None if estimator.conformal_ is None else estimator.conformal_.to_json(),
        "images": None if estimator.images_ is None else estimator.images_.inputs.to_json(),
    }
    if isinstance(estimator.scale_, GradeScale):
        config |= {"classes": estimator.grades_.tolist(), "classes_dtype": estimator.grades_.dtype.str}
    check_config(config, type(estimator))  # nothing is saved that would not be loaded
    beside = {} if estimator.priors_ is None else estimator.priors_.to_tensors()
    if estimator.images_ is not None:
        beside |= estimator.images_.tensors()
    return config, estimator.model_.state_dict() | beside


def _core_state(model: CrossFitted) -> dict[str, Any]:
    """The shape of cross-fitted networks, as JSON values."""
    kinds = [
        {"settings": kind.settings._asdict(), "n_folds": kind.n_folds, "n_priors": kind.factors.shape[1]}
        for kind in model.networks
    ]
    return {"borders": model.borders.to_json(), "kinds": kinds}


def restore(
    kind: Any, folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None = None
) -> Any:
    """Rebuild an estimator from what its folder holds, or say that the parts do not fit."""
    try:
        check_config(config, kind)
        _check_network(folder, config, encoder)
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


def _check_network(folder: Path, config: dict[str, Any], encoder: nn.Module | None) -> None:
    """Refuse a model that was fitted with a network of the user's where it is not passed, and the other way round."""
    needed = config["settings"].get("encoder") == NETWORK
    if needed and encoder is None:
        raise CheckpointError(
            f"{folder} was fitted with a network of your own, which a folder cannot hold: pass it, "
            "as in load(folder, encoder=network)"
        )
    if encoder is not None and not needed:
        raise CheckpointError(f"{folder} knows its encoder, so none may be passed: leave encoder out")


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
    estimator.inputs_ = TabularInputs.from_json(config["columns"])
    names = [column.name for column in estimator.inputs_.columns]
    if config["images"] is None:
        estimator.n_features_in_ = len(names)
    if config["named_columns"]:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if "classes" in config:
        estimator.scale_ = GradeScale.from_json(config["scale"])
        estimator.grades_ = np.array(config["classes"], dtype=np.dtype(config["classes_dtype"]))
        if len(set(estimator.grades_.tolist())) < len(config["classes"]):
            raise MisfitError("classes must be different grades, but classes_dtype makes some of them the same")
    else:
        estimator.scale_ = TargetScale.from_json(config["scale"])
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


def _restore_networks(estimator: Any, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """The priors, what reads images, and the networks, each with its own tensors."""
    of_priors = {name: tensor for name, tensor in tensors.items() if name.startswith("prior.")}
    of_images = {name: tensor for name, tensor in tensors.items() if name.startswith(BACKBONE)}
    own = {name: tensor for name, tensor in tensors.items() if name not in of_priors | of_images}
    read = Read(estimator.inputs_.n_numbers, estimator.inputs_.category_sizes)
    estimator.priors_ = FittedPriors.from_tensors(of_priors, read) if of_priors else None
    if config["images"] is not None:
        _restore_images(estimator, ImageInputs.from_json(config["images"]), of_images)
    elif of_images:
        raise MisfitError(f"{min(of_images)} belongs to a network of images, but the model reads none")
    estimator.encoders_ = list(config["encoders"])
    n_priors = 0 if estimator.priors_ is None else len(estimator.priors_.priors)
    estimator.model_ = filled(partial(_make_model, estimator, config["core"], n_priors), own)
    estimator.model_.to(choose_device(estimator.device)).eval()


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


def _make_model(estimator: Any, core: dict[str, Any] | None, n_priors: int) -> nn.Module:
    """The networks that a configuration describes, whose weights are still to be filled in."""
    inputs = estimator.inputs_
    if core is None:
        if n_priors:
            raise MisfitError("priors advise cross-fitted networks only, but there are none of these")
        maker = network_maker(estimator, fill=False)
        return make_ensemble(estimator.encoders_, inputs, estimator.settings_, 0, 0, maker)
    borders = Borders.from_json(core["borders"])
    borders.check()
    kinds = []
    for place, kind in enumerate(core["kinds"]):
        own = int(kind["n_priors"])
        if own != (n_priors if kind["settings"]["uses_priors"] else 0):
            raise MisfitError(f"core.kinds[{place}].n_priors must be that of the priors, {n_priors}, or 0 without")
        settings, positions = NetworkSettings(**kind["settings"]), torch.zeros(len(borders))
        kinds.append(FoldNetworks(int(kind["n_folds"]), inputs.number_edges, inputs.category_sizes, positions,
                                  [1.0] * own, settings))  # fmt: skip
    return CrossFitted(borders, kinds)


# --- one row is asked about before anybody else asks: what cannot answer is not handed out ---


def try_one_row(estimator: Any) -> None:
    """Ask about a row whose numbers are usual and whose categories were never seen; its answer must be a number."""
    with limit_threads(1), torch.inference_mode():
        inputs, method = _typical_row(estimator), METHODS[estimator.settings_.method]
        device = next(iter(estimator.model_.state_dict().values())).device
        side = {name: torch.ones(1, device=device) for name in (*method.requires, *method.accepts)}
        keys = torch.zeros(1, dtype=torch.int64, device=device)
        said = estimator.model_.predict(tuple(part.to(device) for part in inputs), keys, 1, **side)
        levels = said.map(estimator.scale_.from_unit).quantile([0.05, 0.5, 0.95])
    if not np.isfinite(levels).all():
        raise MisfitError("the model answers with something other than a number")


def _typical_row(estimator: Any) -> tuple[Tensor, ...]:
    """A row as the networks read it, with what the priors say about it."""
    columns, reader = estimator.inputs_, estimator.images_
    numbers = torch.zeros(1, columns.n_numbers)
    codes = torch.zeros(1, len(columns.category_sizes), dtype=torch.int64)
    if reader is not None:
        # Convolutions take any side, and large images much time; other networks may take their own side only.
        is_any = estimator.settings_.encoder in IMAGE_ENCODERS
        side = min(reader.inputs.side, TRIAL_SIDE) if is_any else reader.inputs.side
        image = torch.zeros(1, 3, side, side, dtype=torch.uint8)
        if reader.frozen is None:
            return (image, numbers, codes) if columns.columns else (image,)
        said = reader.frozen(image.to(next(reader.frozen.parameters(), image).device))
        if not bool(said.isfinite().all()) or said.shape[1] > len(columns.columns):
            raise MisfitError("the network of images answers with something other than the features it was fitted on")
    if estimator.priors_ is None:
        return numbers, codes
    said = estimator.priors_.predict(PriorRows((numbers, codes)))
    if not np.isfinite(said).all():
        raise MisfitError("the priors answer with something other than numbers")
    return numbers, codes, torch.from_numpy(said)
