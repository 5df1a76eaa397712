"""The benchmark of images, in a run small enough to test."""

import json

import numpy as np
from PIL import Image

from diffor.encoders.images.mixed_precision import bfloat16_fault


def test_ratios_are_taken_within_turns(images):
    stages = {name for pair in images.RATIOS.values() for name in pair}
    turns = [dict.fromkeys(stages, 10.0) | {"embed here": 10.0 * share} for share in (0.5, 0.75, 1.0)]
    found = images.figures(turns)
    assert found["ratios"]["embed here / encoder alone"] == {"median": 0.75, "lower": 0.625, "upper": 0.875}
    assert found["images_per_second"]["embed here"]["median"] == 7.5


def test_every_stage_is_measured_by_clock_and_processor(images, tmp_path, capsys):
    folder = tmp_path / "faces"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(12):
        Image.fromarray(random.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    out = tmp_path / "images.json"
    images.main([str(folder), "--n-images", "8", "--side", "16", "--turns", "1", "--workers", "0", "--out", str(out)])
    written = json.loads(out.read_text())
    assert written == json.loads(capsys.readouterr().out)
    assert written["n_images"] == 8
    assert written["command"].startswith("python benchmarks/images.py faces --n-images 8")
    for kind in ("clock", "processor"):
        without_bfloat16 = [name for name in images.RATIOS if "bfloat16" not in name]
        assert list(written[kind]["ratios"]) == (list(images.RATIOS) if bfloat16_fault() is None else without_bfloat16)
        assert all(rate["median"] > 0 for rate in written[kind]["images_per_second"].values())
