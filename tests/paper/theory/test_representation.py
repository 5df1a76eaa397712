import re
from itertools import pairwise

import numpy as np
import pytest
import torch

from diffor.core.row_noise import row_keys
from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.theory.representation import (
    compare_embeddings,
    compare_subspaces,
    effective_rank,
    embeddings,
    linear_readout_risks,
)


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_all_counts_agree_on_equal_singular_values(rank):
    left, right = (np.linalg.qr(np.random.default_rng(n).normal(size=(n, rank)))[0] for n in (30, 8))
    assert effective_rank(3.0 * left @ right.T) == pytest.approx((rank, rank, rank))


def test_the_counts_of_unequal_singular_values_are_their_formulas():
    found = effective_rank(np.diag([3.0, 1.0]))
    assert found.rank == 2
    assert found.nuclear == pytest.approx(16 / 10)
    assert found.entropy == pytest.approx(np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25))))
    assert 1 <= found.nuclear <= found.entropy <= found.rank


def test_an_embedding_that_matches_a_gram_matrix_has_its_rank():
    factor = np.random.default_rng(0).normal(size=(12, 3))
    levels, directions = np.linalg.eigh(factor @ factor.T)
    embedding = directions * np.sqrt(levels.clip(0))  # 12 columns, of which the Gram matrix needs 3
    np.testing.assert_allclose(embedding @ embedding.T, factor @ factor.T, atol=1e-10)
    assert effective_rank(embedding).rank == 3


def test_ranks_of_embeddings_add_up_where_they_are_independent_not_where_they_only_differ_in_pairs():
    rng = np.random.default_rng(0)
    apart = [rng.normal(size=(12, rank)) for rank in (1, 2, 3)]
    assert effective_rank(np.hstack(apart)).rank == 6
    plane = rng.normal(size=(12, 2))
    lines = [plane @ [[np.cos(angle)], [np.sin(angle)]] for angle in (0.0, 1.0, 2.0)]
    for one, other in pairwise([*lines, lines[0]]):
        assert effective_rank(np.hstack([one, other])).rank == 2  # they meet in zero, pair by pair ...
    assert effective_rank(np.hstack(lines)).rank == 2  # ... and yet three of them have no three directions


def test_rounding_is_no_direction_and_zeros_have_none():
    assert effective_rank(np.diag([1.0, 1e-7])).rank == 1
    assert effective_rank(np.zeros((3, 2))).rank == 0


def test_the_risk_is_that_of_least_squares_and_a_linear_target_has_none_anywhere():
    rng = np.random.default_rng(0)
    table, other, y = rng.normal(size=(50, 3)), rng.normal(size=(9, 3)), rng.normal(size=50)
    full, weights = np.c_[table, np.ones(50)], np.array([1.0, -2.0, 0.5])
    expected = ((full @ np.linalg.lstsq(full, y, rcond=None)[0] - y) ** 2).mean()
    assert linear_readout_risks((table, y), (table, y)) == pytest.approx([expected, expected])
    risks = linear_readout_risks((table, table @ weights + 4), (other, other @ weights + 4))
    assert risks == pytest.approx([0, 0], abs=1e-20)


@pytest.mark.parametrize("seed", [0, 4])
def test_a_larger_subspace_never_fits_its_own_rows_worse(seed):
    rng = np.random.default_rng(seed)
    table, y = rng.normal(size=(40, 10)), rng.normal(size=40)
    risks = [linear_readout_risks((table[:, :count], y), (table[:, :count], y))[0] for count in range(1, 11)]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(risks))


def test_a_useless_addition_is_seen_on_held_out_rows_only_a_useful_one_helps_there():
    rng = np.random.default_rng(0)
    signal, noise = rng.normal(size=(120, 1)), rng.normal(size=(120, 40))
    found = compare_embeddings(signal, np.c_[signal, noise], noise, signal[:, 0] + 0.5 * rng.normal(size=120))
    single, multiple = found["one time"], found["all times"]
    assert multiple["risk"] < single["risk"]
    assert multiple["held_out_risk"] > single["held_out_risk"]
    table = rng.normal(size=(400, 2))
    found = compare_embeddings(table[:, :1], table, table, table @ [1.0, 1.0])
    single, multiple = found["one time"], found["all times"]
    assert multiple["held_out_risk"] < 1e-12 < single["held_out_risk"]
    assert (single["rank"], multiple["rank"], single["rows"]) == (1, 2, 200)


def test_rows_that_do_not_fit_are_refused():
    message = "an embedding must have one row for each target, but got embedding.shape=(3, 2), y.shape=(4,)"
    with pytest.raises(ValueError, match=re.escape(message)):
        linear_readout_risks((np.zeros((3, 2)), np.zeros(4)), (np.zeros((3, 2)), np.zeros(3)))


def test_the_embeddings_are_what_the_heads_read_and_the_single_one_is_a_part():
    torch.manual_seed(0)
    method = IncrementDiffusion(2, n_increments=4, width=16, n_layers=1).eval()
    features = torch.randn(12, 2)
    with torch.no_grad():
        reading = method.read(features, row_keys((features,), 0), 5)
    single, multiple, hidden = embeddings(method, reading.estimates)
    assert single.shape == (12, 4)
    assert multiple.shape == (12, 16)
    assert hidden.shape == (12, 4 * 32)
    np.testing.assert_array_equal(multiple[:, -4:], single)
    at_first = reading.estimates[:, :, method.chain_times.index(1000)].mean(dim=1)
    np.testing.assert_allclose(multiple[:, :4], at_first.numpy(), rtol=1e-5, atol=1e-6)
    # The heads' answers are a linear function of their hidden layers, before the sigmoid.
    logits = (torch.from_numpy(hidden).view(12, 4, -1) * method.heads.second.double()).sum(-1)
    places = [method.chain_times.index(t) for t in method.aligned_times]
    expected = method.heads.logits(reading.estimates[:, :, places]).mean(dim=1) - method.heads.second_bias
    np.testing.assert_allclose(logits.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_at_one_total_dimension_several_span_more_only_where_the_single_one_has_collapsed():
    rng = np.random.default_rng(0)
    y, several = rng.normal(size=60), rng.normal(size=(60, 8))  # two embeddings of four, side by side
    collapsed = several[:, :3] @ rng.normal(size=(3, 8))  # as many columns, three directions
    found = compare_subspaces(collapsed, several, y)
    assert (found.n_single, found.n_multiple, found.rank_single, found.rank_multiple) == (8, 8, 3, 8)
    assert found.contained
    assert found.collapsed
    assert found.holds
    assert found.risk_multiple < found.risk_single - 0.01
    turned = compare_subspaces(several @ rng.normal(size=(8, 8)), several, y)  # of full rank: the same space
    assert turned.contained
    assert not turned.collapsed
    assert turned.risk_multiple == pytest.approx(turned.risk_single)


def test_where_the_premise_fails_the_risk_may_rise_and_a_broken_theorem_is_told():
    rng = np.random.default_rng(1)
    single, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    other = compare_subspaces(single, rng.normal(size=(60, 4)), single @ np.ones(4))
    assert not other.contained
    assert other.risk_multiple > other.risk_single
    assert other.holds
    found = compare_subspaces(single, np.hstack([single, rng.normal(size=(60, 2))]), y)
    assert found.holds
    assert not found._replace(risk_multiple=found.risk_single + 0.1).holds
    with pytest.raises(ValueError, match=re.escape("shapes are (60, 4), (3, 4), (60,)")):
        compare_subspaces(single, single[:3], y)
