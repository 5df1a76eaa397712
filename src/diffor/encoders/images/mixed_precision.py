"""Whether this machine computes in bfloat16 at all: some virtual ones offer instructions that end the process."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache

from diffor.errors import UserError

TRIAL = """
import torch
from torch import nn
layers = [nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(32, 32, 3)]
with torch.autocast("cpu", torch.bfloat16):
    maps = nn.Sequential(*layers)(torch.zeros(16, 3, 16, 16))
maps.float().sum().backward()
"""
"""A step of a small network, whose kernels are those that larger ones use."""


@lru_cache(maxsize=1)
def bfloat16_fault() -> str | None:
    """What went wrong in a trial in a process of its own, or None; the trial takes some seconds, once."""
    done = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"a trial was ended by signal {-done.returncode}"
    return f"a trial failed ({done.stderr.strip().splitlines()[-1]})"


def check_bfloat16() -> None:
    """Refuse mixed precision on a processor where it would end the process."""
    fault = bfloat16_fault()
    if fault is not None:
        raise UserError(
            f"mixed_precision needs a processor that computes in bfloat16, but {fault}; leave mixed_precision "
            "out, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before Python starts"
        )
