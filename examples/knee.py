"""Grades of arthrosis from X-rays of knees: probabilities of the five Kellgren-Lawrence grades, and sets that hold.

python examples/knee.py                  on drawings that it makes itself, in half a minute
python examples/knee.py --root FOLDER    on real ones, where FOLDER holds {train,val,test}/<grade>/*.jpg
The features of a network that has learned before are learned from; --fine-tune trains the network, too.
docs/guides/images.md has the figures of both on 2,000 real X-rays.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from diffor import DiffoRClassifier, load_dataset, metrics
from diffor.datasets import DATASETS

GRADES = ["none", "doubtful", "mild", "moderate", "severe"]


def draw_knees(folder: Path) -> None:
    """Two bones with a gap that closes and spurs that grow from grade to grade."""
    random = np.random.default_rng(0)
    for part, n_pictures in (("train", 40), ("val", 12), ("test", 12)):
        for grade in range(5):
            (folder / part / str(grade)).mkdir(parents=True)
            for number in range(n_pictures):
                image = Image.new("L", (48, 48), int(random.integers(20, 60)))
                pen, shade = ImageDraw.Draw(image), int(random.integers(150, 220))
                gap, spur = 12 - 2.5 * grade + random.normal(0, 1), 2 * grade + random.normal(0, 1)
                pen.rectangle((12 - spur, 0, 36 + spur, 24 - gap / 2), fill=shade)
                pen.rectangle((12 - spur, 24 + gap / 2, 36 + spur, 48), fill=shade)
                image.save(folder / part / str(grade) / f"{number}.jpg", quality=90)


parser = argparse.ArgumentParser()
parser.add_argument("--root", help="folder of the real X-rays")
parser.add_argument("--encoder", default="efficientnet-lite0", help="network (default: %(default)s)")
parser.add_argument("--fine-tune", action="store_true", help="train the network on the pictures")
parser.add_argument("--epochs", type=int, default=4, help="times that --fine-tune sees each picture (default: 4)")
parser.add_argument("--side", type=int, default=96, help="pixels of a side (default: 96)")
parser.add_argument("--rows", type=int, help="pictures of each part at most (default: all)")
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    if given.root is None:
        draw_knees(Path(folder) / "knee")
    root, random = given.root or folder, np.random.default_rng(given.seed)
    knees = load_dataset("knee", root)
    train, spare, test = (random.permutation(part)[: given.rows] for part in DATASETS["knee"].parts(root, 0))
    print(f"{len(train)} X-rays to learn from, {len(spare)} to set the guarantee, {len(test)} to test on")
    model = DiffoRClassifier(
        "fast",
        encoder=given.encoder,
        image_settings={"side": given.side},
        random_state=given.seed,
        verbose=0,
        **({"epochs": given.epochs} if given.fine_tune else {"freeze_backbone": True}),
    )
    model.fit(knees.x.iloc[train], knees.y[train].astype(int))
    model.conformalize(knees.x.iloc[spare], knees.y[spare].astype(int))
    chances, sets = model.predict_proba(knees.x.iloc[test]), model.predict_set(knees.x.iloc[test], coverage=0.9)
    answers = {decision: model.predict(knees.x.iloc[test], decision) for decision in ("median", "mode", "qwk")}

truth = knees.y[test].astype(int)
print("first X-ray:", dict(zip(GRADES, chances[0].round(2).tolist(), strict=True)), "true:", GRADES[truth[0]])
shares = np.bincount(knees.y[train].astype(int), minlength=5) / len(train)
alone = metrics.rps(truth, np.tile(shares, (len(truth), 1)))
print(f"RPS {metrics.rps(truth, chances):.4f}, of the grades' shares alone {alone:.4f}")
for decision, answer in answers.items():
    kappa, error, right = metrics.qwk(truth, answer, 5), metrics.mae(truth, answer), np.mean(truth == answer)
    print(f"{decision + ':':>7} QWK {kappa:.3f}, MAE {error:.3f} grades, accuracy {right:.1%}")
held, size = sets[np.arange(len(truth)), truth].mean(), sets.sum(axis=1).mean()
print(f"90 % sets hold the true grade of {held:.1%}, with {size:.2f} grades each")
