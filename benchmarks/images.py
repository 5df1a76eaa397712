"""Images per second of decoding, embedding and training, beside the encoder alone on a tensor in memory.

The ideal is a machine that spends its time in the network only: the encoder's forward pass over pixels that are in
memory already, and its training step on them. The training step is also measured with colours first in memory, with
bfloat16 (where a trial shows that the processor has it) and with its batch computed in pieces. Each stage is measured
in turn, several times; ratios are taken within a turn, where the load of the machine is most alike, and their median is
given with the quartiles. Other work on the machine lengthens the seconds of the clock, but hardly those of this process
on a processor, so both are given; the latter leave out what worker processes do meanwhile.

    python benchmarks/images.py IMAGES                                                 200 images, the small network
    python benchmarks/images.py IMAGES --encoder resnet18 --side 224 --out images.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffor.core.method import OrdinalModel
from diffor.encoders.images.embedding import embed_images
from diffor.encoders.images.inputs import ImageInputs, find_images
from diffor.encoders.images.lazy import LazyImages, worker_pool
from diffor.encoders.images.mixed_precision import bfloat16_fault
from diffor.encoders.images.networks import ImageEncoder, make_image_encoder
from diffor.files import provenance
from diffor.methods.diffor import IncrementDiffusion
from diffor.training.optimizer import FlatAdam

N_IMAGES, N_TURNS, BATCH, AHEAD, N_PIECES = 200, 5, 32, 2, 4
RATIOS = {
    "decode here / encoder alone": ("decode here", "encoder alone"),
    "decode in workers / encoder alone": ("decode in workers", "encoder alone"),
    "embed here / encoder alone": ("embed here", "encoder alone"),
    "embed with workers / encoder alone": ("embed with workers", "encoder alone"),
    "train, first epoch / training step alone": ("train, first epoch", "training step alone"),
    "train, later epoch / training step alone": ("train, later epoch", "training step alone"),
    "colours first / last, training step": ("training step, colours first", "training step alone"),
    "bfloat16 / single precision, training step": ("training step, bfloat16", "training step alone"),
    "in pieces / at once, training step": ("training step, in pieces", "training step alone"),
}


class Bench:
    """The stages, each a function that goes once over all images."""

    def __init__(self, paths: list[str], encoder: ImageEncoder, side: int, n_workers: int) -> None:
        self.paths, self.encoder, self.side, self.n_workers = paths, encoder, side, n_workers
        self.pixels = self.images(0)[:].contiguous(memory_format=torch.channels_last)
        self.model = OrdinalModel(encoder, IncrementDiffusion(encoder.out_features))
        self.optimizer = FlatAdam(self.model.parameters())
        self.y = torch.linspace(0, 1, len(paths))
        self.keys = torch.arange(len(paths))
        self.loaded = self.images(n_workers)
        self.loaded.find_broken(verbose=0)

    def images(self, n_workers: int, cache_bytes: int = 2**31) -> LazyImages:
        """The images anew, with nothing decoded."""
        inputs = ImageInputs(side=self.side, n_workers=n_workers, cache_bytes=cache_bytes)
        return inputs.transform(self.paths).images

    def stages(self) -> dict[str, Callable[[], None]]:
        """What is measured, by name."""
        return {
            "decode here": lambda: self.decode(0),
            "decode in workers": lambda: self.decode(self.n_workers),
            "encoder alone": self.encode,
            "embed here": lambda: self.embed(0),
            "embed with workers": lambda: self.embed(self.n_workers),
            "training step alone": lambda: self.train(None),
            "train, first epoch": lambda: self.train(self.images(self.n_workers)),
            "train, later epoch": lambda: self.train(self.loaded),
            "training step, colours first": lambda: self.train_with("channels_last", False),
            "training step, in pieces": lambda: self.train(None, N_PIECES),
            **(
                {}
                if bfloat16_fault()
                else {"training step, bfloat16": lambda: self.train_with("mixed_precision", True)}
            ),
        }

    def train_with(self, option: str, value: bool) -> None:
        """One epoch on pixels in memory, with an option of the encoder set."""
        before = getattr(self.encoder, option)
        setattr(self.encoder, option, value)
        self.train(None)
        setattr(self.encoder, option, before)

    def decode(self, n_workers: int) -> None:
        """Decode all images and keep none."""
        images = self.images(n_workers, cache_bytes=0)
        for first in range(0, len(images), BATCH):
            images.expect(slice(first, first + (AHEAD + 1) * BATCH))
            images[first : first + BATCH]

    @torch.inference_mode()
    def encode(self) -> None:
        """Features of pixels in memory."""
        self.encoder.eval()
        for first in range(0, len(self.pixels), BATCH):
            self.encoder(self.pixels[first : first + BATCH])

    def embed(self, n_workers: int) -> None:
        """Features of files, into a file."""
        inputs = ImageInputs(side=self.side, n_workers=n_workers)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "features.parquet"
            embed_images(self.paths, self.encoder, out, inputs=inputs, batch_rows=BATCH, verbose=0)

    def train(self, images: LazyImages | None, n_pieces: int = 1) -> None:
        """One epoch on files, in an order that chance gave, or on pixels in memory as they are."""
        self.model.train()
        order = torch.randperm(len(self.paths), generator=torch.Generator().manual_seed(0))
        batches = list(torch.split(order, BATCH))
        for step, rows in enumerate(batches):
            if images is None:
                pixels = self.pixels[rows]
            else:
                for expected in batches[step : step + AHEAD + 1]:
                    images.expect(expected)
                pixels = images.training_rows(rows, self.keys[rows], step)
            for part, y in zip(pixels.tensor_split(n_pieces), self.y[rows].tensor_split(n_pieces), strict=True):
                loss = torch.stack(list(self.model((part,), y).values())).sum()
                (loss * (len(y) / len(rows))).backward()
            self.optimizer.step(1e-3)


def measure_turn(stages: dict[str, Callable[[], None]], n_images: int) -> dict[str, dict[str, float]]:
    """Images per second of each stage, by the clock and by the processor, measured once."""
    rates: dict[str, dict[str, float]] = {"clock": {}, "processor": {}}
    for name, run in stages.items():
        started, processor_started = time.perf_counter(), time.process_time()
        run()
        rates["clock"][name] = n_images / (time.perf_counter() - started)
        rates["processor"][name] = n_images / (time.process_time() - processor_started)
    return rates


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles.

    >>> summarise([1.0, 2.0, 3.0])
    {'median': 2.0, 'lower': 1.5, 'upper': 2.5}
    """
    lower, upper = np.quantile(values, [0.25, 0.75])
    return {"median": statistics.median(values), "lower": float(lower), "upper": float(upper)}


def figures(turns: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Rates and ratios over the turns, by one of the two times."""
    rates = {name: summarise([turn[name] for turn in turns]) for name in turns[0]}
    measured = {name: pair for name, pair in RATIOS.items() if all(stage in rates for stage in pair)}
    ratios = {name: summarise([turn[top] / turn[below] for turn in turns]) for name, (top, below) in measured.items()}
    return {"images_per_second": rates, "ratios": ratios}


def measure(arguments: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    """Run all stages over some of the folder's images."""
    where = provenance.origin("python benchmarks/images.py", words, ["pillow", "joblib"])  # it names the load before
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    names = find_images(arguments.images)
    chosen = np.unique(np.linspace(0, len(names) - 1, min(arguments.n_images, len(names))).astype(int))
    paths = [str(arguments.images / names[place]) for place in chosen]
    encoder = make_image_encoder(arguments.encoder, weights=arguments.weights)
    assert isinstance(encoder, ImageEncoder)
    bench = Bench(paths, encoder, arguments.side, arguments.workers)
    stages = bench.stages()
    measure_turn(stages, len(paths))  # processes start, memory is fetched, kernels are chosen
    turns = [measure_turn(stages, len(paths)) for _ in range(arguments.turns)]
    if arguments.workers:
        worker_pool(arguments.workers).shutdown()
    return {
        **where,
        "encoder": arguments.encoder,
        "side": arguments.side,
        "n_images": len(paths),
        "threads": arguments.threads,
        "workers": arguments.workers,
        "turns": arguments.turns,
        "batch": BATCH,
        **{kind: figures([turn[kind] for turn in turns]) for kind in ("clock", "processor")},
    }


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, help="folder of images")
    parser.add_argument("--encoder", default="small")
    parser.add_argument("--weights", type=Path, help="file of weights (default: random ones, which are as fast)")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--n-images", type=int, default=N_IMAGES)
    parser.add_argument("--turns", type=int, default=N_TURNS)
    parser.add_argument("--threads", type=int, default=1, help="threads of the network (default: 1)")
    parser.add_argument("--workers", type=int, default=1, help="processes that decode (default: 1)")
    parser.add_argument("--out", type=Path, help="JSON file to write to as well")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    text = json.dumps(measure(arguments, words), indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
