"""The latent space: do attention heads learn different things? The paper's t-SNE, and numbers for what it claims.

Every head has weights of its own, so their vectors lie apart before anything is learned. A picture of clusters by head
says little, then: the same picture and numbers are given for the untrained model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError
from diffor.estimators.chain import own_features
from diffor.methods.diffor import ScaleHeadsDenoiser
from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import Findings
from diffor.paper.theory.representation import effective_rank, embeddings
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table

Array = NDArray[np.float64]

N_DRAWN = 150
"""Rows whose vectors are drawn, each once for every head."""
UNTRAINED = {"max_steps": 1, "learning_rate": 1e-12}
"""Settings under which a fit leaves the weights as they were drawn."""
MEASURES = {
    "silhouette": "silhouette",
    "silhouette_centred": "silhouette, each head's mean taken away",
    "rank_of_all": "directions of all heads",
    "rank_of_one": "directions of one head, on average",
    "similarity": "similarity of two heads (CKA)",
    "unexplained": "share of the target's variance that is missed",
}
"""The numbers behind the picture, and what tables call them."""
CAPTION = (
    "Silhouette: how far vectors lie from those of other heads, from -1 to 1; below 0.1 it tells next to nothing. "
    "Heads have weights of their own, so they may lie apart before anything is learned; what is left after each head's "
    "mean is taken away depends on the row. Directions: effective rank of that part. Similarity: linear CKA of two "
    "heads, 1 where they say the same about the rows. The last row is of a linear reading of all heads, on rows it "
    "was not fitted on."
)


def heads_of(model: Any, x: Any, n_samples: int = 4) -> Array:
    """What each attention head takes from the tokens, at its own time, by the first member; means over chains.

    NOTE[DIFF]: a denoiser whose attention heads belong to no scale has no such vectors; its increments' hidden layers
    stand for them.

    **Shape:** -> ``(n, S, size)``.
    """
    import torch

    member, features, keys = own_features(model, x)
    method: Any = member.method
    with torch.no_grad():
        if isinstance(method.denoiser, ScaleHeadsDenoiser):
            return attention_vectors(method, features, keys, n_samples)
        hidden = embeddings(method, method.read(features, keys, n_samples).estimates)[2]
    return np.asarray(hidden.reshape(len(hidden), method.n_increments, -1), dtype=np.float64)


def attention_vectors(method: Any, features: Any, keys: Any, n_samples: int) -> Array:
    """Vectors of the last layer's heads along one chain, that of head k at time t_k. **Shape:** -> ``(n, S, size)``."""
    import torch

    seen: list[Any] = []
    attention = method.denoiser.layers[-1].attention
    watch = attention.register_forward_hook(lambda layer, given, _: seen.append(layer.take(*given)))
    try:
        method.read(features, keys, n_samples)
    finally:
        watch.remove()
    count = method.n_increments
    vectors = torch.cat(seen).view(len(method.chain_times), len(features), n_samples, count, -1).mean(dim=2)
    own = [vectors[method.chain_times.index(t), :, place] for place, t in enumerate(method.aligned_times)]
    return np.asarray(torch.stack(own, dim=1).cpu(), dtype=np.float64)


def measure_heads(hidden: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """Numbers of the heads' hidden vectors. **Shape:** hidden ``(n, S, h)``, y ``(n,)``, at least two heads."""
    from sklearn.metrics import silhouette_score

    vectors, true = np.asarray(hidden, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n, count, _ = vectors.shape
    if count < 2:
        raise UserError(f"heads can be compared where there are two or more, but got {count}; raise n_increments")
    heads, centred, half = np.tile(np.arange(count), n), vectors - vectors.mean(axis=0), n // 2
    flat = vectors.reshape(n, -1)
    return {
        "silhouette": float(silhouette_score(vectors.reshape(n * count, -1), heads)),
        "silhouette_centred": float(silhouette_score(centred.reshape(n * count, -1), heads)),
        "rank_of_all": effective_rank(centred.reshape(n, -1)).entropy,
        "rank_of_one": float(np.mean([effective_rank(centred[:, head]).entropy for head in range(count)])),
        "similarity": mean_similarity(centred),
        "unexplained": share_missed((flat[:half], true[:half]), (flat[half:], true[half:])),
    }


def share_missed(fitted: tuple[Array, Array], others: tuple[Array, Array]) -> float:
    """Share of the target's variance in other rows that a linear reading of the vectors misses.

    There may be more numbers in the vectors than rows, so the reading is held back as cross-validation on the rows that
    it is fitted on prefers. **Shape:** ``(n, D)``, ``(n,)`` and ``(m, D)``, ``(m,)``.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    reading = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-6, 1e6, 25))).fit(*fitted)
    return 1.0 - float(reading.score(*others))


def mean_similarity(centred: ArrayLike) -> float:
    """Mean linear CKA of each two heads. **Shape:** ``(n, S, h)``, each head's mean taken away."""
    heads = np.moveaxis(np.asarray(centred, dtype=np.float64), 1, 0)
    alike = np.linalg.norm(heads.transpose(0, 2, 1)[:, None] @ heads, axis=(2, 3)) ** 2  # (S, S)
    own = np.sqrt(np.diag(alike)).clip(np.finfo(float).tiny ** 0.5)
    return float((alike / np.outer(own, own))[np.triu_indices(len(heads), 1)].mean())


def read_latent(trained: ArrayLike, untrained: ArrayLike, y: ArrayLike, seed: int = 0, about: str = "") -> Findings:
    """What hidden vectors of a trained and of an untrained model say. **Shape:** ``(n, S, h)`` each, y ``(n,)``."""
    both = {"trained": np.asarray(trained), "untrained": np.asarray(untrained)}
    numbers = {name: measure_heads(hidden, y) for name, hidden in both.items()}
    sections: list[Section] = [Heading("The attention heads' vectors"), Paragraph(about)] if about else []
    for name, hidden in both.items():
        points, heads = head_map_points(hidden[:N_DRAWN], seed)
        ax = figures.head_map(points, heads)
        caption = f"The {name} model: {min(len(hidden), N_DRAWN)} rows, each once for every head, by t-SNE."
        sections.append(Figure(plots.figure_svg(ax), f"Vectors of the {name} model's attention heads", caption))
    rows = [{"measure": words, **{name: numbers[name][key] for name in both}} for key, words in MEASURES.items()]
    return Findings(numbers, [*sections, Table.of(rows, CAPTION)])


def head_map_points(hidden: Array, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Places of the vectors on a map by t-SNE, and whose they are. **Shape:** -> ``(n * S, 2)``, ``(n * S,)``."""
    from sklearn.manifold import TSNE

    n, count, _ = hidden.shape
    flat = hidden.reshape(n * count, -1)
    perplexity = min(30.0, (len(flat) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(flat.astype(np.float32))
    return np.asarray(places, dtype=np.float64), np.tile(np.arange(1, count + 1), n)


DATASETS_TRIED = ("vlengagement", "movies", "diabetes")
"""The first of these that is there is looked at; the last always is."""
SMALL = {"objective": "one_call", "batch_size": 128, "max_steps": 1500, "learning_rate": 1e-3}
QUICK = {"batch_size": 32, "max_steps": 10, "evaluate_every": 5}
SETTINGS: dict[str | None, dict[str, Any]] = {None: {}, "small": SMALL, "quick": QUICK}
MAX_ROWS, MAX_LOOKED_AT = 5000, 1000


def run_latent(dataset: str, root: str | None = None, size: str | None = None, seed: int = 0) -> Findings:
    """Train the paper's model on a data set, and look at its heads on test rows beside those of an untrained one."""
    from diffor.bench.peers.methods import own_settings
    from diffor.datasets import DATASETS
    from diffor.estimators.api import DiffoRRegressor

    source = DATASETS[dataset]
    samples, (train, test) = source.read(root), source.split(root, seed)
    generator = np.random.default_rng(seed)
    train, test = (generator.permutation(rows)[: (80 if size == "quick" else MAX_ROWS)] for rows in (train, test))
    test = test[:MAX_LOOKED_AT]
    found = []
    for extra in ({}, UNTRAINED):
        given = {**SETTINGS[size], **extra, "bounds": source.bounds, "random_state": seed, "verbose": 0}
        model = DiffoRRegressor("paper", **own_settings("diffor-paper", given)).fit(
            samples.x.iloc[train], samples.y[train]
        )
        found.append(heads_of(model, samples.x.iloc[test]))
    named = f"The preset paper, size {size}," if size else "The preset paper"
    about = (
        f"{named} on {dataset}, seed {seed}: {len(train)} rows to learn from, {len(test)} to look at. "
        "A vector is what an attention head of the last layer takes from the tokens at its own time."
    )
    return read_latent(found[0], found[1], samples.y[test], seed, about)
