"""Models of several folds: each row answered by those that have not seen it; places by trees, and spreads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from diffor.errors import UserError
from diffor.files.schema import MisfitError
from diffor.priors.contract import (
    Answers,
    Floats,
    Prior,
    PriorRows,
    Read,
    RowNumbers,
    as_answers,
    check_tensor,
    counted_rows,
    under_prefix,
    whole_folds,
    with_prefix,
)
from diffor.priors.design import MAX_FIT_ROWS, FoldDesign, read_columns, take
from diffor.priors.tree_masks import TreeMasks, mask_trees
from diffor.priors.trees import Growth, Task, Trees, grow_by_sklearn, join_trees, still

Grow = Callable[[Task, Growth, int], Trees]

MIN_FIT_ROWS = 10
"""Of fewer rows the mean is all that is learned."""


class Lesson(NamedTuple):
    """Training rows, the folds in which each is held out once, and what each fold's models read of them."""

    inputs: tuple[Tensor, ...]
    weights: Floats | None
    whole: RowNumbers
    """**Shape:** ``(n,)``."""
    designs: list[FoldDesign]
    seed: int


def prepare(rows: PriorRows, target: Floats, weights: Floats | None, folds: RowNumbers, seed: int) -> Lesson:
    """Training rows divided into folds, every row held out once. **Shape:** target, weights and folds ``(n,)``."""
    inputs, whole = rows.inputs, whole_folds(folds, seed)
    counted = counted_rows(len(target), weights)
    designs = []
    for fold in range(int(whole.max()) + 1):
        held = counted[whole[counted] == fold]
        rest = counted[whole[counted] != fold]
        rest = rest if len(rest) else counted  # the only fold: there are no other rows
        designs.append(FoldDesign(inputs, target, weights, (rest, held if len(held) else rest), seed))
    return Lesson(inputs, weights, whole, designs, seed)


def grow_folds(
    lesson: Lesson, target: Floats, grow: Grow, growth: Growth, beside: Floats | None = None
) -> tuple[FoldModels, Floats]:
    """Trees of each fold, and what each says about its held-out rows; ``beside`` is one more column for all.

    **Shape:** target and beside ``(n,)`` -> models, ``(n,)``.
    """
    answers, grown = np.zeros(len(target)), []
    for fold, design in enumerate(lesson.designs):
        task = make_task(design, target, lesson.weights, beside)
        trees = grow(task, growth, lesson.seed + fold) if isinstance(task, Task) else still(task)
        grown.append(trees)
        held = np.flatnonzero(lesson.whole == fold)
        for block in np.array_split(held, max(1, len(held) // MAX_FIT_ROWS)):
            columns = _widen(design.read(take(lesson.inputs, block)).numpy(), beside, block)
            answers[block] = trees.predict(torch.from_numpy(columns)).numpy()
    return FoldModels.join(lesson.designs, grown), answers


def make_task(design: FoldDesign, target: Floats, weights: Floats | None, beside: Floats | None) -> Task | float:
    """What one fold's trees are fitted to, or the mean where rows are few or all alike. **Shape:** target ``(n,)``."""
    wanted = target[design.rows]
    of_rows, of_check = (None if weights is None else weights[part] for part in (design.rows, design.check_rows))
    if len(wanted) < MIN_FIT_ROWS or float(np.ptp(wanted)) == 0:
        return float(np.average(wanted, weights=of_rows))
    table, check = _widen(design.table, beside, design.rows), _widen(design.check, beside, design.check_rows)
    return Task(table, wanted, of_rows, check, target[design.check_rows], of_check)


class FoldModels:
    """The trees of all folds as one set of trees over the columns of all folds side by side.

    ``levels`` holds of each fold the mean target of each category's levels, ``chosen`` which columns it reads; both
    have one entry where all folds read the same.
    """

    def __init__(self, trees: Trees, levels: list[list[Tensor]], chosen: list[Tensor]) -> None:
        self.trees, self.levels, self.chosen = trees, levels, chosen

    @cached_property
    def quick(self) -> Sequence[TreeMasks | Trees]:
        """The trees in the form that answers quickest: parts whose answers add up."""
        return mask_trees(self.trees) or [self.trees]

    @classmethod
    def join(cls, designs: list[FoldDesign], grown: list[Trees]) -> FoldModels:
        """The mean of trees that were grown one fold after another."""
        levels, chosen = [design.levels for design in designs], [design.chosen for design in designs]
        if not levels[0] and all(torch.equal(part, chosen[0]) for part in chosen):
            levels, chosen = levels[:1], chosen[:1]
        width = len(chosen[0])
        starts = [place * width if len(chosen) > 1 else 0 for place in range(len(grown))]
        return cls(join_trees(grown, starts, width, width * len(chosen)), levels, chosen)

    def read(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The columns of all folds. **Shape:** -> ``(n, q)``."""
        parts = [read_columns(inputs, *pair) for pair in zip(self.levels, self.chosen, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def predict(self, inputs: tuple[Tensor, ...], beside: Tensor | None = None) -> Tensor:
        """The mean of the folds' answers. **Shape:** -> ``(n,)``."""
        columns = self.read(inputs)
        columns = columns if beside is None else torch.cat([columns, beside[:, None]], dim=1)
        total = self.quick[0].predict(columns)
        for part in self.quick[1:]:
            total = total + part.predict(columns)
        return total

    def check(self, name: str, read: Read, n_beside: int = 0) -> None:
        """Refuse what was not learned from such rows, with ``n_beside`` further columns for all folds."""
        if not self.chosen or len({len(chosen) for chosen in self.chosen}) > 1:
            raise MisfitError(f"{name} must choose equally many columns in each of one fold or more, but does not")
        for fold, (levels, chosen) in enumerate(zip(self.levels, self.chosen, strict=True)):
            check_coding(f"{name}.{fold}", read, levels, chosen)
        self.trees.check(f"{name}.trees", len(self.chosen) * len(self.chosen[0]) + n_beside)

    def to_tensors(self) -> dict[str, Tensor]:
        """Trees and codings by name."""
        tensors = with_prefix(self.trees._asdict(), "trees.")
        for fold, (levels, chosen) in enumerate(zip(self.levels, self.chosen, strict=True)):
            tensors[f"{fold}.chosen"] = chosen
            tensors |= {f"{fold}.levels.{column}": means for column, means in enumerate(levels)}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> FoldModels:
        """Rebuild the models from :meth:`to_tensors`."""
        levels: list[list[Tensor]] = []
        while f"{len(levels)}.chosen" in tensors:
            named = under_prefix(tensors, f"{len(levels)}.levels.")
            levels.append([named[str(column)] for column in range(len(named))])
        chosen = [tensors[f"{fold}.chosen"] for fold in range(len(levels))]
        return cls(Trees(**under_prefix(tensors, "trees.")), levels, chosen)


def check_coding(name: str, read: Read, levels: list[Tensor], chosen: Tensor) -> None:
    """Refuse means of levels, and places of columns, that do not belong to such rows."""
    if len(levels) != len(read.code_counts):
        raise MisfitError(
            f"{name}.levels must be {len(read.code_counts)}, one for each category, but are {len(levels)}"
        )
    for place, (means, count) in enumerate(zip(levels, read.code_counts, strict=True)):
        check_tensor(f"{name}.levels.{place}", means, torch.float32, (None,))
        if not 1 <= len(means) <= count + 1:
            raise MisfitError(f"{name}.levels.{place} must have 1 to {count + 1} entries, but has {len(means)}")
    check_tensor(f"{name}.chosen", chosen, torch.int64, (None,), 0, read.n_columns - 1)


def _widen(table: Floats, beside: Floats | None, rows: RowNumbers) -> Floats:
    """The table with one more column where there is one. **Shape:** ``(r, q)`` -> ``(r, q or q + 1)`` float32."""
    joined = table if beside is None else np.concatenate([table, beside[rows, None]], axis=1)
    return np.ascontiguousarray(joined, dtype=np.float32)


LEAST_SHARE = 1e-3
"""Of the mean distance: what is added before logarithms are taken."""
COMMON_SHARE = 0.3
"""Of the mean distance: what every row's spread is made of at least."""
NORMAL_DISTANCE = 0.7979
"""Mean distance of a standard normal number from zero."""


class SpreadModel(NamedTuple):
    """The spread of rows whose places are known, as the standard deviation of a normal law."""

    models: FoldModels
    scale: Tensor
    """What every row has in common, and the factor of the whole. **Shape:** ``(2,)``."""

    @classmethod
    def fit(cls, lesson: Lesson, target: Floats, place: Floats) -> tuple[SpreadModel, Floats]:
        """Learn from honest places; also the spread of each row by the models of other folds.

        **Shape:** target and place ``(n,)`` -> model, ``(n,)``.
        """
        missed = np.abs(target - place)
        mean = max(float(np.average(missed, weights=lesson.weights)), 1e-9)
        logs = np.log(missed + LEAST_SHARE * mean)
        growth = Growth(rounds=200, patience=10, rate=0.1, leaves=7, min_leaf=max(20, len(target) // 40), depth=4)
        models, logs = grow_folds(lesson, logs, grow_by_sklearn, growth, beside=np.clip(place, 0, 1))
        raw = np.exp(logs) + COMMON_SHARE * mean
        factor = float(np.average(missed / raw, weights=lesson.weights)) / NORMAL_DISTANCE
        return cls(models, torch.tensor([COMMON_SHARE * mean, max(factor, 1e-6)])), raw * factor

    def predict(self, inputs: tuple[Tensor, ...], place: Tensor) -> Tensor:
        """The spread of new rows around their places. **Shape:** place ``(n,)`` -> ``(n,)``."""
        logs = self.models.predict(inputs, place.clamp(0, 1))
        common, factor = self.scale.tolist()
        return logs.exp().add_(common).mul_(factor)

    def check(self, name: str, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        self.models.check(f"{name}.models", read, n_beside=1)
        check_tensor(f"{name}.scale", self.scale, torch.float32, (2,), 0, 1e6)

    def to_tensors(self) -> dict[str, Tensor]:
        """The models and the scale, by name."""
        return with_prefix(self.models.to_tensors(), "models.") | {"scale": self.scale}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> SpreadModel:
        """Rebuild the model from :meth:`to_tensors`."""
        return cls(FoldModels.from_tensors(under_prefix(tensors, "models.")), tensors["scale"])


class PlacePrior(Prior):
    """A prior that finds places, and learns the spread around them from how far honest ones were off."""

    spread: SpreadModel | None = None

    @abstractmethod
    def fit_place(self, lesson: Lesson, target: Floats) -> Floats:
        """Learn places; also an honest one for each training row. **Shape:** -> ``(n,)``."""

    @abstractmethod
    def predict_place(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Expected place of new rows. **Shape:** -> ``(n,)`` float32."""

    @abstractmethod
    def place_tensors(self) -> dict[str, Tensor]:
        """Everything needed to find places, by name."""

    def fit(self, rows: PriorRows, u: Floats, weights: Floats | None, folds: RowNumbers, seed: int) -> Answers:
        """Learn places and spreads; also each row's answer by what has not seen it. **Shape:** -> ``(n, 2)``."""
        target = np.asarray(u, dtype=np.float64)
        lesson = prepare(rows, target, weights, folds, seed)
        place = self.fit_place(lesson, target)
        self.spread, spread = SpreadModel.fit(lesson, target, place)
        return as_answers(place, spread)

    @torch.inference_mode()
    def predict(self, rows: PriorRows) -> Answers:
        """Places, and the spread that belongs to each. **Shape:** -> ``(n, 2)``."""
        spread = self._fitted_spread("predicts")
        place = self.predict_place(rows.inputs)
        return as_answers(place.numpy(), spread.predict(rows.inputs, place).numpy())

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything needed to answer, by name."""
        spread = self._fitted_spread("is saved")
        return self.place_tensors() | with_prefix(spread.to_tensors(), "spread.")

    def check(self, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        self._fitted_spread("is checked").check(f"{self.name}.spread", read)

    def _fitted_spread(self, what: str) -> SpreadModel:
        if self.spread is None:
            raise UserError(f"the prior {self.name!r} must be fitted before it {what}: call fit")
        return self.spread
