"""What two processes do together: started by torchrun from test_distributed.py, each writes what it found.

torchrun --standalone --nproc-per-node 2 two_processes.py FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from stream_examples import TINY
from torch import nn

from diffor import DiffoRRegressor
from diffor.core.method import OrdinalEnsemble, OrdinalModel
from diffor.encoders import TabularEncoder
from diffor.estimators.streamed_fit import Stream, fit_stream
from diffor.methods import METHODS
from diffor.training.batches import MemoryBatches, Rows
from diffor.training.distributed import World
from diffor.training.loop import TrainConfig, train

N_ROWS, BATCH = 90, 40
CONFIG = TrainConfig(max_steps=12, batch_size=BATCH, evaluate_every=5, seed=3, verbose=0, learning_rate=1e-2)
STREAMED = TINY | {"batch_size": 32, "evaluate_every": 5}


class HalfBatches(MemoryBatches):
    """Batches in memory of which each of two processes computes a part, the first the smaller one."""

    def __init__(self, data, world):
        super().__init__(data, BATCH, CONFIG.seed)
        self.world, self.shards = world, (world.rank,)

    def pieces(self, step, shard):
        index = self.index(step)
        part = index[:13] if shard == 0 else index[13:]
        yield self.data.take(part), len(part) / len(index)


def make_rows():
    random = torch.Generator().manual_seed(0)
    numbers = torch.rand(N_ROWS, 2, generator=random)
    codes = torch.randint(0, 50, (N_ROWS, 3), generator=random)
    codes[:, 2] = 2 + codes[:, 2] * 37  # hashed to 64 buckets, two rows each
    return Rows((numbers, codes), numbers[:, 0], None, torch.arange(N_ROWS))


def make_model():
    """A model without noise, with dense, sparse and hashed embeddings."""
    torch.manual_seed(0)
    encoder = TabularEncoder(2, [50, 50, 66], tables=["dense", "sparse", 64], width=8, n_layers=1, dropout=0.0)
    return OrdinalEnsemble([OrdinalModel(encoder, METHODS["value-squared"](8))])


def flat(model: nn.Module) -> list[float]:
    return [number for tensor in model.state_dict().values() for number in tensor.float().flatten().tolist()]


def refusal(action) -> str:
    try:
        action()
    except ValueError as error:
        return str(error)
    return "none"


def raise_error():
    raise ValueError("only the first process knows")


def fit_streamed(folder: Path, world: World) -> DiffoRRegressor:
    model = DiffoRRegressor(**STREAMED, checkpoint_dir=folder / "run")
    return fit_stream(model, Stream(str(folder / "data"), "y", ids=["user"], drop=["row", "stars"], epochs=2), world)


def main() -> None:
    folder, world = Path(sys.argv[1]), World.from_environment()
    vector = torch.tensor([1.0, 2.0]) * (world.rank + 1)
    world.add(vector)
    rows = torch.full((world.rank + 1, 2), float(world.rank))
    trained = make_model()
    history = train(
        trained, make_rows(), lambda model: 1.0 + world.rank, CONFIG, batches=HalfBatches(make_rows(), world)
    )
    streamed = fit_streamed(folder, world)
    found = {
        "rank": world.rank,
        "added": vector.tolist(),
        "same": world.same(f"from {world.rank}"),
        "gathered": world.gather(world.rank),
        "gathered_rows": world.gather_rows(rows).tolist(),
        "first_error": refusal(lambda: world.answer(raise_error)),
        "trained": flat(trained),
        "scores": [record["valid_crps"] for record in history.records],
        "loss": [record["value"] for record in history.records],
        "rows": history.rows,
        "streamed": flat(streamed.model_),
        "streamed_rows": streamed.history_.rows,
        "columns": streamed.inputs_.to_json(),
        "other_files": refusal(
            lambda: fit_stream(DiffoRRegressor(**TINY), Stream(str(folder / f"data{world.rank}"), "y"), world)
        ),
    }
    (folder / f"found-{world.rank}.json").write_text(json.dumps(found))
    world.close()


if __name__ == "__main__":
    main()
