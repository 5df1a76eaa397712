"""Images that there is something to learn from, and settings with which that takes a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from diffor.encoders.images.convnets import SmallConvNet

N_IMAGES = 70
TINY: dict[str, Any] = {
    "encoder": "small",
    "encoder_settings": {"n_channels": 4},
    "image_settings": {"side": 16, "crop": 1.0, "n_workers": 0},
    "max_steps": 30,
    "evaluate_every": 15,
    "random_state": 0,
    "verbose": 0,
}


def write_squares(folder: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Noisy squares whose brightness is the target: their paths, and the targets."""
    random = np.random.default_rng(0)
    y = random.uniform(0, 100, N_IMAGES)
    paths = []
    for number, value in enumerate(y):
        pixels = np.clip(random.normal(2.5 * value, 20, (18, 16, 3)), 0, 255).astype(np.uint8)
        paths.append(str(folder / f"{number:03d}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths, y


def write_weights(folder: Path) -> Path:
    """A file of weights for the network of TINY."""
    torch.manual_seed(0)
    torch.save(SmallConvNet(4).state_dict(), folder / "small.pt")
    return folder / "small.pt"


def mean_error(model: Any, X: Any, y: NDArray[np.float64]) -> float:
    return float(np.abs(model.predict(X) - y).mean())


def constant_error(y: NDArray[np.float64]) -> float:
    return float(np.abs(y - np.median(y)).mean())
