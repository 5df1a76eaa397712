"""What all figures share: colours, axes, legends, and the way into a page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.prediction import Prediction
from diffor.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating]

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#888888"
FIGURE_SIZE = (5.2, 4.2)
"""Inches. Small, so that labels of ten points stay readable where a phone narrows the figure."""
METHOD_LOOKS = (
    (VERMILLION, "D"),
    (BLUE, "o"),
    (GREEN, "s"),
    (ORANGE, "^"),
    (SKY, "v"),
    (BLACK, "x"),
    (GREY, "P"),
    (BLUE, "*"),
)
"""Colours and markers of methods that are drawn beside each other."""


def require_matplotlib() -> None:
    """Raise an ImportError that names the cure where matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("figures need matplotlib: install it with pip install 'diffor[plots]'") from error


def new_axes(ax: Axes | None, height: float = FIGURE_SIZE[1], width: float = FIGURE_SIZE[0]) -> Axes:
    """The given axes, or those of a new figure that belongs to nobody else."""
    if ax is None:
        require_matplotlib()
        from matplotlib.figure import Figure

        ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend_above(ax: Axes, columns: int = 1, others: Sequence[Axes] = ()) -> None:
    """One legend of all axes, above them where it covers nothing."""
    handles, labels = [], []
    for one in (ax, *others):
        found = one.get_legend_handles_labels()
        handles += found[0]
        labels += found[1]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.3}
    ax.legend(handles, labels, frameon=False, ncols=columns, fontsize=9, handlelength=2.4, **place)


def plain_powers(ax: Axes) -> None:
    """Numbers as they are spoken on a logarithmic axis, few enough that they do not touch."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def true_values(y: ArrayLike, prediction: Prediction) -> Array:
    """The truth as numbers, one for each predicted row. **Shape:** ``(n,)`` -> ``(n,)``."""
    true = np.asarray(y, dtype=np.float64)
    if true.shape != (len(prediction),) or not len(true):
        raise UserError(
            f"y must hold one value for each predicted row, but got y.shape={true.shape}, rows={len(prediction)}"
        )
    return true


def figure_svg(ax: Axes) -> str:
    """The figure of some axes as one ``<svg>`` element, to stand in a page of any background.

    The same figure gives the same text. Black is written as ``currentColor``, so that it follows the page's text.
    """
    import matplotlib

    buffer = io.StringIO()
    figure: Any = ax.figure
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": "diffor", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    # Comments and the namespaces that HTML implies are not needed; the style would apply to the whole page.
    text = re.sub(r"<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text).replace("xlink:href=", "href=")
    root = '<svg fill="currentColor" stroke-linejoin="round" '
    return text.replace(BLACK, "currentColor").replace("<svg ", root, 1).strip()
