"""What tests of figures share: rows to draw, and how to find what was drawn."""

import numpy as np

from diffor.core.prediction import Prediction
from diffor.training.loop import History

BOUNDS = (0.0, 100.0)


def forty_rows():
    """The truth of forty rows and calibrated answers to them."""
    rng = np.random.default_rng(0)
    centre = rng.uniform(10, 90, 40)
    y = np.clip(centre + rng.normal(scale=8, size=40), *BOUNDS)
    return y, Prediction(np.clip(centre[:, None] + rng.normal(scale=8, size=(40, 200)), *BOUNDS))


def a_history():
    """Three looks at validation rows, the second of which was the best."""
    looks = zip((0.5, 0.3, 0.2), (0.04, 0.02, 0.01), (3.0, 2.0, 2.5), strict=True)
    records = [{"step": 10.0 * place, "seconds": float(place), "denoise": denoise, "increment": increment,
                "valid_crps": crps} for place, (denoise, increment, crps) in enumerate(looks, 1)]  # fmt: skip
    return History(records, best_step=20, best_score=2.0, steps=30)


def line_labelled(ax, start):
    """The first line whose label starts with these words."""
    return next(line for line in ax.lines if str(line.get_label()).startswith(start))


def legend_texts(ax):
    """All words of the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def annotations(ax):
    """All texts inside the axes."""
    return [child for child in ax.texts if child.get_text()]


def outside_of_figure(ax):
    """How far anything that is drawn reaches past the figure's edge, in inches."""
    ax.figure.draw_without_rendering()
    everything = ax.figure.get_tightbbox()
    width, height = ax.figure.get_size_inches()
    return max(-everything.x0, -everything.y0, everything.x1 - width, everything.y1 - height, 0)
