"""How pleasing photos are: pictures become features once, then DiffoR learns the scores. Runs in seconds.

Without arguments a tiny set in the format of SPAQ is made up: photos of dots on grey, the brighter and the more
colourful the higher their score. With ``--root DIR`` the real SPAQ below a folder is read instead.

    python examples/aesthetics.py
    python examples/aesthetics.py --root DATA --encoder efficientnet-lite0
"""

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from diffor import DiffoRRegressor, metrics
from diffor.bench.image_features import image_features, with_features
from diffor.datasets import DATASETS

N_PHOTOS, SIDE = 240, 48
SCORES = ("MOS", "Brightness", "Colorfulness", "Contrast", "Noisiness", "Sharpness")


def write_photos(folder: Path) -> None:
    """Photos and tables as SPAQ has them; a score is what can be seen, blurred by what raters do not agree on."""
    random = np.random.default_rng(0)
    images, rows = folder / "SPAQ" / "TestImage", []
    images.mkdir(parents=True)
    for number in range(1, N_PHOTOS + 1):
        light, colour = random.random(2)
        pixels = np.full((SIDE, SIDE, 3), 60 + 120 * light)
        for _ in range(12):
            top, left = random.integers(0, SIDE - 12, 2)
            pixels[top : top + 12, left : left + 12] += 100 * colour * random.normal(size=3)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(images / f"{number:05d}.jpg", quality=90)
        seen = 10 * (0.2 + 0.3 * light + 0.5 * colour) + random.normal(0, 0.5)
        rows.append([f"{number:05d}.jpg", *[f"{np.clip(seen, 0, 10):.3f}"] * len(SCORES)])
    for name, part in {"spaqTrain": rows[:-40], "spaqTest": rows[-40:]}.items():
        with (folder / "SPAQ" / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([["image_id", *SCORES], *part])


def compare(root: str, encoder: str) -> None:
    """Fit on the training photos, and print how far off the predictions of the test photos are."""
    spaq = DATASETS["spaq"]
    samples = with_features(spaq.read(root), spaq, image_features({"encoder": encoder, "pooling": "mean"}), root)
    train, test = spaq.split(root, 0)
    x, y = samples.x, samples.y
    print(f"{len(train)} photos to learn from, {len(test)} to test on, {x.shape[1]} features by {encoder!r}")
    model = DiffoRRegressor("fast", bounds=spaq.bounds, random_state=0, verbose=0).fit(x.iloc[train], y[train])
    prediction = model.predict_distribution(x.iloc[test])
    guess = np.full(len(test), np.median(y[train]))
    print(f"constant: {metrics.mae(y[test], guess):.2f} points off on average, rank correlation 0")
    error, order = metrics.mae(y[test], prediction.median), metrics.srcc(y[test], prediction.mean)
    print(f"median: {error:.2f} points off on average, rank correlation {order:.3f}")
    low, high = prediction.interval(0.8).T
    print(f"80 % intervals hold {metrics.coverage(y[test], low, high):.0%} of the scores")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of the real SPAQ")
    parser.add_argument("--encoder", default="small", help="encoder of the photos (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.root is not None:
        compare(arguments.root, arguments.encoder)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder))
        compare(folder, arguments.encoder)


if __name__ == "__main__":
    main()
