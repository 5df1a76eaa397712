"""Numbers of the heads' hidden vectors, on vectors whose numbers are known."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from diffor import DiffoRRegressor
from diffor.paper.experiments.latent import (
    head_map_points,
    heads_of,
    mean_similarity,
    measure_heads,
    read_latent,
)
from diffor.reports.html import Figure, Table


def vectors(n=60, heads=3, shift=0.0, own=1.0, seed=0):
    """Hidden vectors ``(n, heads, 4)``: a part that heads share, a part of their own, and a mean of each."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(n, 1, 4))
    return shift * np.eye(heads, 4) * 10 + (1 - own) * shared + own * generator.normal(size=(n, heads, 4))


def test_similarity_is_1_for_heads_that_say_the_same_turned_or_not_and_small_for_unrelated_ones():
    same, unrelated = vectors(own=0.0, n=2000), vectors(own=1.0, n=2000)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    same[:, 1] = 7 * same[:, 1] @ rotation
    assert mean_similarity(same - same.mean(axis=0)) == pytest.approx(1.0)
    assert mean_similarity(unrelated - unrelated.mean(axis=0)) < 0.01


def test_heads_with_means_far_apart_are_told_apart_until_means_are_taken_away():
    y = np.random.default_rng(1).normal(size=60)
    numbers = measure_heads(vectors(shift=5.0, own=1.0), y)
    assert numbers["silhouette"] > 0.9
    assert abs(numbers["silhouette_centred"]) < 0.1


def test_ranks_count_directions():
    y = np.random.default_rng(1).normal(size=400)
    together, apart = measure_heads(vectors(n=400, own=0.0), y), measure_heads(vectors(n=400, own=1.0), y)
    assert together["rank_of_all"] == pytest.approx(together["rank_of_one"], rel=1e-6)
    assert 3.9 < apart["rank_of_one"] <= 4.0
    assert 11 < apart["rank_of_all"] <= 12.0


def test_what_is_linear_in_the_vectors_is_explained():
    hidden = vectors(n=400)
    y = hidden[:, 0, 1] - 2 * hidden[:, 2, 3]
    assert measure_heads(hidden, y)["unexplained"] < 1e-6
    assert measure_heads(hidden, np.random.default_rng(5).normal(size=400))["unexplained"] > 0.9


def test_one_head_cannot_be_compared():
    with pytest.raises(ValueError, match="where there are two or more, but got 1; raise n_increments"):
        measure_heads(vectors(heads=1), np.arange(60.0))


def test_the_map_has_a_point_for_every_row_and_head():
    points, heads = head_map_points(vectors(n=20, shift=5.0), seed=0)
    assert points.shape == (60, 2)
    assert np.bincount(heads).tolist() == [0, 20, 20, 20]
    # Heads that lie far apart do so on the map.
    centres = np.stack([points[heads == head].mean(axis=0) for head in (1, 2, 3)])
    within = np.mean([points[heads == head].std() for head in (1, 2, 3)])
    assert np.linalg.norm(centres[0] - centres[1]) > within


def test_findings_compare_trained_with_untrained():
    y = np.random.default_rng(1).normal(size=60)
    findings = read_latent(vectors(shift=5.0), vectors(shift=0.0), y, about="These rows.")
    assert findings.numbers["trained"]["silhouette"] > 0.9 > findings.numbers["untrained"]["silhouette"]
    assert sum(isinstance(section, Figure) for section in findings.sections) == 2
    (table,) = [section for section in findings.sections if isinstance(section, Table)]
    assert table.header == ("measure", "trained", "untrained")
    assert [row[0] for row in table.rows][:2] == ["silhouette", "silhouette, each head's mean taken away"]
    assert len(table.rows) == len(findings.numbers["trained"])


def test_vectors_are_those_of_attention_heads_at_their_own_times():
    x = np.random.default_rng(0).random((30, 2))
    model = DiffoRRegressor("paper", max_steps=3, batch_size=16, bounds=(0, 1), random_state=0, verbose=0,
                            method_settings={"n_increments": 4, "width": 32}).fit(x, x[:, 0])  # fmt: skip
    vectors = heads_of(model, x, n_samples=2)
    assert vectors.shape == (30, 4, 8)
    method = model.model_.models[0].method
    heads = method.denoiser.layers[-1].attention
    with torch.no_grad():
        heads.key_value.weight.view(2, 4, heads.size, -1)[1, 2] = 0.0  # what head 3 reads ...
        heads.key_value.bias.view(2, 4, heads.size)[1, 2] = 0.0
    changed = heads_of(model, x, n_samples=2)
    assert not changed[:, 2].any()  # ... is nothing now
    assert np.allclose(changed[:, 0], vectors[:, 0])  # the first time of the chain comes before any change
    assert not heads._forward_hooks
    other = DiffoRRegressor("paper", max_steps=1, bounds=(0, 1), random_state=0, verbose=0,
                            method_settings={"denoiser": "mlp", "n_increments": 4}).fit(x, x[:, 0])  # fmt: skip
    assert heads_of(other, x).shape == (30, 4, 32)
