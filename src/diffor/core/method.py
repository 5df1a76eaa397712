"""The contracts: an encoder makes features, a method makes a loss and a prediction of them, a model joins the two."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.errors import UserError

Inputs = tuple[Tensor, ...]
"""What an encoder reads: tensors that share their first dimension, the rows."""


Answer = TypeVar("Answer", Tensor, Prediction)


class Encoder(nn.Module, ABC):
    """Turns inputs into features of ``out_features`` numbers each."""

    out_features: int

    @abstractmethod
    def forward(self, *inputs: Tensor) -> Tensor:
        """Encode inputs. **Shape:** tensors ``(n, ...)`` -> ``(n, out_features)``."""


class Method(nn.Module, ABC):
    """Turns features into a loss while training and into a predictive distribution when asked.

    Targets are in [0, 1] throughout; :class:`~diffor.core.target.TargetScale` knows the user's units.
    """

    requires: ClassVar[tuple[str, ...]] = ()
    """Names of side columns, beyond features and targets, that ``loss`` and ``predict`` need as keywords."""
    accepts: ClassVar[tuple[str, ...]] = ()
    """Names of side columns that are used where they are given."""
    learns_from: ClassVar[tuple[str, ...]] = ()
    """Names of side columns that only training uses, where they are given; they may hold several numbers of a row."""

    has_chain: ClassVar[bool] = False
    """Whether it predicts by a reverse chain that can be followed (``chain_times``, ``values_along``), whose number
    of steps can be chosen (``with_steps``)."""
    has_increments: ClassVar[bool] = False
    """Whether that chain is one of increments, decoded by heads, of which the paper's theorems speak."""
    cross_fits: ClassVar[bool] = False
    """Whether tables are learned by K networks in step on its borders, each row held out by one, with priors beside."""
    has_borders: ClassVar[bool] = False
    """Whether its answer is a survival function on ``borders``, as exported programs compute it."""
    has_distribution: ClassVar[bool] = True
    """Whether it says how sure it is, rather than naming one value only."""
    takes_n_grades: ClassVar[bool] = False
    """Whether it has an argument ``n_grades``, which is then given where targets are grades."""
    draws_are_costly: ClassVar[bool] = True
    """Whether each sample costs a run of a network; where not, many are asked for."""

    # What a list of methods says about it.
    family: ClassVar[str] = ""
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    evidence: ClassVar[str] = ""
    """How its formulas are known: ``code`` (the authors'), ``reimplementation``, ``paper``, ``notes``, ``standard``."""
    tasks: ClassVar[tuple[str, ...]] = ("value", "grades")
    is_reconstruction: ClassVar[bool] = False
    """Whether it is rebuilt from summaries, which is where ``evidence`` is ``notes``."""
    native_statistic: ClassVar[str] = "median"
    """What its authors decide by: ``mean``, ``median``, ``mode``, or ``own`` for a rule of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.is_reconstruction = cls.evidence == "notes"
        cls.takes_n_grades = "n_grades" in inspect.signature(cls.__init__).parameters

    def prepare(self, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> None:
        """Look once at the training targets, before training; rows of weight 0 count as absent. **Shape:** ``(n,)``."""
        if weights is not None:
            counted = weights > 0
            y, side = y[counted], {name: column[counted] for name, column in side.items()}
        if y.ndim != 1 or len(y) == 0:
            raise UserError(f"training targets must have shape (at least one row,), but got {tuple(y.shape)}")
        if not bool(((y >= 0) & (y <= 1)).all()):
            raise UserError(f"training targets must lie in [0, 1], but from {float(y.min())} to {float(y.max())}")
        self.fit_targets(y, **side)

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """What a method learns of training targets, which :meth:`prepare` has checked. **Shape:** ``(n,)``."""

    @abstractmethod
    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Named loss terms, which training sums. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> scalars."""

    @abstractmethod
    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Distribution of each row's target in [0, 1]; ``keys`` seed each row's own noise.

        **Shape:** ``(n, d)``, ``(n,)`` -> samples ``(n, n_samples)``.
        """

    def calibrate(self, features: Tensor, y: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> None:
        """Look once at validation rows, after training."""

    def diagnostics(self, features: Tensor, y: Tensor) -> dict[str, float]:
        """Figures about the training itself, by name, for those who ask for them. **Shape:** ``(n, d)``, ``(n,)``."""
        return {}


class OrdinalModel(nn.Module):
    """An encoder and a method; ``forward`` is the loss, so that data-parallel wrappers work untouched."""

    def __init__(self, encoder: Encoder, method: Method) -> None:
        super().__init__()
        self.encoder = encoder
        self.method = method

    def forward(self, inputs: Inputs, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Loss terms of a batch. **Shape:** inputs of n rows, ``(n,)``, ``(n,)`` -> scalars."""
        return self.method.loss(self.encoder(*inputs), y, weights, **side)

    def predict(self, inputs: Inputs, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Distribution of each row's target in [0, 1]. **Shape:** inputs of n rows -> ``n`` predictions."""
        return self.answer(self.method.predict, inputs, keys, n_samples, **side)

    @torch.inference_mode()
    def answer(
        self, ask: Callable[..., Answer], inputs: Inputs, keys: Tensor, n_samples: int, **side: Tensor
    ) -> Answer:
        """Encode rows once and ask the method about them: ``ask(features, keys, n_samples)``, row by row."""
        features = self.features(inputs)
        n, block = len(features), KERNEL_ROWS // math.gcd(KERNEL_ROWS, n_samples)
        side = {name: fill_up(column, block) for name, column in side.items()}
        answer = ask(fill_up(features, block), fill_up(keys, block), n_samples, **side)
        return answer if len(answer) == n else answer[:n]

    @torch.inference_mode()
    def features(self, inputs: Inputs) -> Tensor:
        """Encode each row once. **Shape:** inputs of n rows -> ``(n, out_features)``."""
        encoded: Tensor = self.encoder(*(fill_up(part, KERNEL_ROWS) for part in inputs))
        return encoded[: inputs[0].shape[0]]


class OrdinalEnsemble(nn.Module):
    """One or several models that learn side by side and answer together: each draws its share of the samples.

    Members that started from different weights disagree where data are scarce, so their joint answer is wider there
    than that of any single one. Training them together lets it stop where the joint answer is best, which is later than
    where each alone is.
    """

    def __init__(self, members: Sequence[OrdinalModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Inputs, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Loss terms, summed over the members: each learns as if alone. **Shape:** as :class:`OrdinalModel`."""
        losses = [member(inputs, y, weights, **side) for member in self.members]
        return {name: torch.stack([terms[name] for terms in losses]).sum() for name in losses[0]}

    @property
    def n_members(self) -> int:
        """How many members there are."""
        return len(self.members)

    @property
    def models(self) -> list[OrdinalModel]:
        """The members as what they are."""
        return [cast(OrdinalModel, member) for member in self.members]

    def shares(self, n_samples: int) -> list[tuple[OrdinalModel, int, int]]:
        """Each member that draws, with its place and its number of samples."""
        count = len(self.members)
        shares = [(n_samples + count - 1 - place) // count for place in range(count)]
        return [
            (member, place, share)
            for place, (member, share) in enumerate(zip(self.models, shares, strict=True))
            if share
        ]

    def predict(self, inputs: Inputs, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Distribution of each row's target in [0, 1]. **Shape:** inputs of n rows -> ``n`` predictions."""
        # Each member has noise of its own: the keys are moved by its place.
        parts = [member.predict(inputs, keys + place, share, **side) for member, place, share in self.shares(n_samples)]
        points = [part.point for part in parts if part.point is not None]
        point = np.mean(points, axis=0) if len(points) == len(parts) else None
        if all(isinstance(part, CdfPrediction) for part in parts):
            return CdfPrediction.pool([part for part in parts if isinstance(part, CdfPrediction)])
        return Prediction(np.concatenate([part.samples for part in parts], axis=1), point)


KERNEL_ROWS = 16
"""Matrix kernels round differently for fewer rows than this, so batches are filled up to a multiple of it. Where all
other sizes share a kernel, as with AVX-512, a row's answer is then the same to the bit whatever rows stand beside it;
elsewhere it may differ in the last digits of single precision."""


def fill_up(rows: Tensor, multiple: int) -> Tensor:
    """Repeat the last row until the number of rows is a multiple. **Shape:** ``(n, ...)`` -> ``(n or more, ...)``."""
    missing = -rows.shape[0] % multiple
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])]) if missing else rows


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Mean over rows, each counted by its weight; weights have mean 1 over all training rows. **Shape:** ``(n,)``."""
    return values.mean() if weights is None else (values * weights).mean()


def subset_mean(values: Tensor, members: Tensor, weights: Tensor | None) -> Tensor:
    """Mean over the rows that belong to a subset, by weight; 0 where there are none. **Shape:** each ``(n,)``.

    >>> import torch
    >>> subset_mean(torch.tensor([1.0, 9.0]), torch.tensor([True, False]), None).item()
    1.0
    """
    shares = members.to(values) if weights is None else members * weights
    return (values * shares).sum() / shares.sum().clamp(min=torch.finfo(values.dtype).tiny)
