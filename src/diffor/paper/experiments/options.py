"""What the command line changes of a run file: methods, seeds, epochs, the network of images and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diffor.bench.plan import CONSTANT, Plan
from diffor.errors import UserError, did_you_mean

WEIGHTS, ENCODER = "encoder_weights", "encoder"


@dataclass(frozen=True)
class Options:
    """What is said beside a size; None leaves it as the run files have it."""

    methods: Sequence[str] | None = None
    seeds: int | None = None
    epochs: int | None = None
    encoder: str | None = None
    weights: str | None = None

    def apply(self, plans: Sequence[Plan], root: str | None = None) -> list[Plan]:
        """The plans with what is said; weights that they need are looked for, beside and below the root."""
        self._check(plans)
        return [replace(plan, seeds=plan.seeds if self.seeds is None else tuple(range(self.seeds)), methods=tuple(
            replace(method, settings=self._settings(method.settings, root))
            for method in plan.methods
            if self.methods is None or method.name in (CONSTANT, *self.methods)
        )) for plan in plans]  # fmt: skip

    def _check(self, plans: Sequence[Plan]) -> None:
        known = {method.name: method for plan in plans for method in plan.methods}
        for name in self.methods or ():
            if name not in known:
                raise UserError(f"--methods must be among {', '.join(known)}, but got {name!r}"
                                f"{did_you_mean(name, known)}")  # fmt: skip
        for option, name in (("epochs", "epochs"), ("encoder", ENCODER), ("weights", ENCODER)):
            if getattr(self, option) is not None and not any(name in one.settings for one in known.values()):
                raise UserError(f"--{option} is for run files whose methods have {name}, but got "
                                f"{getattr(self, option)!r}, and none here has; leave it out")  # fmt: skip

    def _settings(self, settings: Mapping[str, Any], root: str | None) -> dict[str, Any]:
        changed = dict(settings)
        if self.epochs is not None and "epochs" in changed:
            changed["epochs"] = self.epochs
        if ENCODER not in changed:
            return changed
        if self.encoder is not None:
            changed[ENCODER] = self.encoder
            changed.pop(WEIGHTS, None)
        if self.weights is not None:
            changed[WEIGHTS] = self.weights
        if changed.get(WEIGHTS) is not None:
            changed[WEIGHTS] = str(find_weights(changed[WEIGHTS], changed[ENCODER], root))
        return changed


def find_weights(path: str, encoder: str, root: str | None) -> Path:
    """The file of a network's first weights, here or below the root."""
    places = [Path(path), *([] if root is None else [Path(root) / path])]
    for place in places:
        if place.is_file():
            return place.absolute()
    raise UserError(
        f"{encoder} starts from weights in the file {path}, but there is none "
        f"({' or '.join(map(str, places))}); name yours with --weights, or begin without any with --encoder {encoder}"
    )
