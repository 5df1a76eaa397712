"""Ages from photos of faces: a small network learns from images and says how sure it is. Runs in half a minute.

python examples/age.py                   on drawings that it makes itself
python examples/age.py --root FOLDER     on UTKFace, where FOLDER holds UTKFace/*.jpg.chip.jpg
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from diffor import DiffoRRegressor, load_dataset, metrics
from diffor.datasets.samples import random_split


def draw_faces(folder: Path, n_faces: int = 400) -> None:
    """Faces with the names of UTKFace: hair turns grey and the brow gets lines with the years."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number, age in enumerate(random.integers(1, 90, n_faces)):
        image = Image.new("RGB", (48, 48), tuple(random.integers(90, 160, 3).tolist()))
        pen = ImageDraw.Draw(image)
        hair = int(np.clip(40 + 2 * age + random.normal(0, 12), 0, 255))
        pen.ellipse((6, 3, 42, 45), fill=(hair, hair, hair))
        pen.ellipse((9, 12, 39, 46), fill=(225, 180, 150))
        for line in range(age // 15):
            pen.line((15, 16 + 2 * line, 33, 16 + 2 * line), fill=(170, 120, 100))
        image.save(folder / f"{age}_{number % 2}_{number % 5}_2017011000000{number:04d}.jpg.chip.jpg", quality=90)


parser = argparse.ArgumentParser()
parser.add_argument("--root", help="folder of UTKFace")
parser.add_argument("--seconds", type=float, default=30, help="time to learn (default: %(default)s)")
root, seconds = vars(parser.parse_args()).values()
with tempfile.TemporaryDirectory() as folder:
    if root is None:
        draw_faces(Path(folder) / "UTKFace")
    faces = load_dataset("utkface", root=root or folder, columns=())  # the images alone
    train, test = random_split(len(faces), test_share=0.2, seed=0)
    model = DiffoRRegressor(
        "fast",
        encoder="small",
        encoder_settings={"n_channels": 16},
        image_settings={"side": 48, "crop": 0.9, "broken": "skip"},
        bounds=(0, 116),
        time_limit=seconds,
        random_state=0,
    )
    model.fit(faces.x.iloc[train], faces.y[train])
    answers = model.predict_distribution(faces.x.iloc[test])

truth, middle = faces.y[test], np.full(len(test), np.median(faces.y[train]))
low, high = answers.interval(0.9).T
for name, ages in (("constant", middle), ("median", answers.median)):
    error, within = metrics.mae(truth, ages), metrics.cs(truth, ages, 5)
    print(f"{name + ':':>9} {error:.1f} years off on average, {within:.0%} within 5 years")
print(f"90 % intervals: {metrics.coverage(truth, low, high):.0%} of {len(test)} faces inside")
