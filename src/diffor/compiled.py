"""Compiled networks: the same answers from code that torch generates for them, where it can."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from torch import nn

from diffor.diffusion import IncrementDiffusion
from diffor.method import OrdinalEnsemble
from diffor.train import Rows

TRIAL_ROWS = 16


def compile_networks(model: OrdinalEnsemble, rows: Rows, n_samples: int) -> None:
    """Compile an ensemble's encoders and denoisers, unless they are; where that fails, say so and leave them.

    Compiling happens when a network is first called, so a few of the rows are predicted for trial.
    """
    if model.cannot_compile or all(network._compiled_call_impl is not None for network in _networks(model)):
        return
    for network in _networks(model):
        network.compile(dynamic=True)
    trial = rows.take(slice(0, TRIAL_ROWS))
    try:
        model.predict(trial.inputs, trial.keys, n_samples, **trial.side)
    except Exception as error:  # what compilers raise has no common kind, and none of it may stop a prediction
        for network in _networks(model):
            network._compiled_call_impl = None  # torch offers no public way back
        model.cannot_compile = True
        reason = str(error).strip().splitlines()
        warnings.warn(
            "compile=True needs a C++ compiler that torch can use, however: compiling failed "
            f"({reason[0] if reason else type(error).__name__}); answers come from the networks as they are: "
            "install a compiler, or leave compile out",
            stacklevel=2,
        )


def _networks(model: OrdinalEnsemble) -> Iterator[nn.Module]:
    for member in model.models:
        yield member.encoder
        if isinstance(member.method, IncrementDiffusion):
            yield member.method.denoiser
