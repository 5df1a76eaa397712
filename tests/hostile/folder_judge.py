"""Loads one folder after another in a process with bounded memory, and says of each what came of it, as JSON lines.

``python folder_judge.py BASE BYTES`` reads lines ``{"folder": ..., "model": ...}``.
"""

import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd


def judge(base: Path, folder: Path, name: str) -> dict[str, object]:
    """What loading and asking a folder gives."""
    from folder_models import answers_of

    import diffor
    from diffor.errors import UserError
    from diffor.training.checkpoint import CheckpointError

    table = base / f"{name}.probes.parquet"
    probes = pd.read_parquet(table) if table.exists() else np.load(base / f"{name}.probes.npy")
    try:
        model = diffor.load(folder)
    except CheckpointError as error:
        return {"verdict": "refused", "message": str(error)}
    except BaseException as error:
        return {"verdict": "raw", "message": f"load: {type(error).__name__}: {error}"[:500]}
    left = [name for name in ("checkpoint_dir", "log_to", "encoder_weights") if getattr(model, name) is not None]
    if left:
        return {"verdict": "raw", "message": f"survived: {left}"}
    try:
        answers = answers_of(model, probes)
    except UserError as error:
        return {"verdict": "answered otherwise", "message": str(error)}
    except BaseException as error:
        return {"verdict": "raw", "message": f"predict: {type(error).__name__}: {error}"[:500]}
    if not np.isfinite(answers).all():
        return {"verdict": "not finite", "message": f"{int((~np.isfinite(answers)).sum())} answers"}
    known = np.load(base / f"{name}.answers.npy")
    is_same = answers.shape == known.shape and bool(np.array_equal(answers, known))
    return {"verdict": "same" if is_same else "other answers", "message": ""}


def main() -> None:
    """Judge folders until there are no more."""
    base, most = Path(sys.argv[1]), int(sys.argv[2])
    import folder_models  # noqa: F401

    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no verdict
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.monotonic()
        found = judge(base, Path(asked["folder"]), asked["model"])
        print(json.dumps(found | {"seconds": time.monotonic() - started}), file=answers, flush=True)


if __name__ == "__main__":
    main()
