"""Draw the denoising of one row: ``python docs/make_animation.py`` trains the paper's chain and writes an animated SVG.

The row is one of ``synthetic-bimodal``, whose truth is one of two values; shown are three chains that end apart.
"""

from pathlib import Path

import numpy as np
import torch

from diffor import DiffoRRegressor, load_dataset
from diffor.estimators.chain import own_features
from diffor.methods.diffor.increments import aggregate_increments, squeeze

N_INCREMENTS, N_STEPS, N_CHAINS = 8, 16, 32
SECONDS, REST = 8.0, 0.3
"""How long the animation takes, and the share of it in which the end stands still."""
BAR, GAP, HEIGHT, LEFT, TOP = 22, 6, 120, 60, 34
BLUE, SKY, VERMILLION = "#0072b2", "#56b4e9", "#d55e00"


def chains_of_a_row() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates along the chains of one row, what they add up to, and the values that may be true, all in [0, 1].

    **Shape:** (chains, steps, increments), (chains, steps), (2,).
    """
    samples = load_dataset("synthetic-bimodal")
    settings = {"n_increments": N_INCREMENTS, "denoiser": "mlp", "n_steps": N_STEPS, "decoding": "chain"}
    model = DiffoRRegressor(
        "paper", method_settings=settings, max_steps=2500, batch_size=256, random_state=0, verbose=0
    )
    model.fit(samples.x[:4000], samples.y[:4000])
    row = samples.x[4000:].assign(position=0.0, tilt=0.0)[:1]  # two values, equally likely: -2 and 2
    member, features, keys = own_features(model, row)
    with torch.inference_mode():
        estimates = squeeze(member.method.read(features, keys, N_CHAINS).estimates[0]).double()  # (m, k, S)
    truth = model.scale_.to_unit(np.array([-2.0, 2.0]))
    return estimates.clamp(0, 1 / N_INCREMENTS).numpy(), aggregate_increments(estimates).numpy(), np.asarray(truth)


def moving(name: str, values: np.ndarray) -> str:
    """An attribute that takes the values one after the other and then rests."""
    times = np.append(np.linspace(0, 1 - REST, len(values)), 1.0)
    listed = [*values, values[-1]]
    return (
        f'<animate attributeName="{name}" dur="{SECONDS:g}s" repeatCount="indefinite" '
        f'keyTimes="{";".join(f"{time:.3g}" for time in times)}" values="{";".join(f"{one:.4g}" for one in listed)}"/>'
    )


def panel(place: int, estimates: np.ndarray, values: np.ndarray, truth: np.ndarray) -> str:
    """One chain: its increments as bars, and its value on the scale beneath them."""
    width, parts = N_INCREMENTS * (BAR + GAP), []
    x0 = LEFT + place * (width + 40)
    for k in range(N_INCREMENTS):
        x, tall = x0 + k * (BAR + GAP), HEIGHT * estimates[:, k] * N_INCREMENTS
        parts.append(f'<rect x="{x}" y="{TOP}" width="{BAR}" height="{HEIGHT}" fill="none" stroke="#999"/>')
        parts.append(
            f'<rect x="{x}" y="{TOP + HEIGHT - tall[-1]:.4g}" width="{BAR}" height="{tall[-1]:.4g}" fill="{SKY}">'
            f"{moving('y', TOP + HEIGHT - tall)}{moving('height', tall)}</rect>"
        )
    line, wide = TOP + HEIGHT + 34, width - GAP
    parts.append(f'<line x1="{x0}" x2="{x0 + wide}" y1="{line}" y2="{line}" stroke="#999"/>')
    parts += [f'<path d="M{x0 + one * wide:.4g} {line + 4} l-5 9 h10 z" fill="{VERMILLION}"/>' for one in truth]
    places = x0 + values * wide
    parts.append(f'<circle cx="{places[-1]:.4g}" cy="{line}" r="6" fill="{BLUE}">{moving("cx", places)}</circle>')
    parts.append(f'<text x="{x0}" y="{TOP - 12}">chain {place + 1}</text>')
    return "".join(parts)


def main() -> None:
    """Train, choose three chains, and write the picture."""
    estimates, values, truth = chains_of_a_row()
    order = np.argsort(values[:, -1])
    chosen = order[[len(order) // 10, -len(order) // 10, len(order) // 4]]
    width = LEFT + 3 * (N_INCREMENTS * (BAR + GAP) + 40)
    text = "".join(panel(place, estimates[k], values[k], truth) for place, k in enumerate(chosen))
    words = "Three chains settle from noise: bars of eight increments at each step, and the values that they add up to"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 84}" role="img" '
        f'font-family="sans-serif" font-size="14"><title>{words}</title>'
        f'<rect width="100%" height="100%" fill="white"/>{text}'
        f'<text x="{LEFT}" y="{TOP + HEIGHT + 74}" font-size="13">bars: how far each increment is filled; '
        "dot: their sum; triangles: the two values that may be true</text></svg>"
    )
    Path(__file__).with_name("assets").joinpath("denoising.svg").write_text(svg, encoding="utf-8")
    print(f"{len(svg) / 1000:.0f} kB; the chosen chains end at {values[chosen, -1].round(2)}, truth {truth.round(2)}")


if __name__ == "__main__":
    main()
