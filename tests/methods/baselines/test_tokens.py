"""Targets as sequences: round trips, hand-computed cases, and samples that follow what was learned."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from method_checks import descend, make_method, make_rows, predict
from torch import Tensor

from diffor.core.row_noise import row_keys
from diffor.errors import UserError
from diffor.methods import METHODS
from diffor.methods.baselines.bisection import BisectionSequence, bisection_nodes
from diffor.methods.baselines.sequence_decoder import SequenceDecoder
from diffor.methods.baselines.tokens import (
    VOCABULARIES,
    GenerativeOrdinal,
    GenerativeRegression,
    teacher_share,
    windowed_value,
)
from diffor.methods.baselines.vocabulary import (
    END,
    PADDING,
    START,
    codi_scores,
    dynamic_quantile_values,
    greedy_counts,
    largest_residual,
    prune,
    read_back,
    serialise,
    thin_out,
    with_even_quantiles,
)

SMALL = {"width": 16, "n_layers": 1, "n_heads": 4, "n_hidden": 32, "dropout": 0.0}


def skewed_units(n: int = 3000, seed: int = 0) -> Tensor:
    """Whole numbers up to 1000 of which many are zero and most are small."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.2, 0, random.lognormal(-3, 1.2, n).clip(max=1))
    return torch.tensor(np.rint(1000 * y).astype(int))


@pytest.mark.parametrize(("name", "task"), [("gr", "value"), ("gor", "grades"), ("ord2seq", "value")])
def test_samples_gather_around_what_was_learned(name, task):
    method, (features, y) = make_method(METHODS[name], task, **SMALL), make_rows(task)
    descend(method, features, y, 80, 0.02)
    constant_error = (y - y.median()).abs().mean().item()
    assert np.abs(predict(method, features).median - y.numpy()).mean() < 0.5 * constant_error


# Vocabulary and serialisation.


@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.05])
def test_numbers_survive_the_round_trip_within_the_tolerance(tolerance):
    values = torch.tensor(dynamic_quantile_values(skewed_units()))
    numbers = torch.arange(1001)  # also numbers that the vocabulary has not seen
    tokens = serialise(greedy_counts(numbers, values, tolerance), 40)
    left_out = numbers - read_back(tokens, values)
    assert (left_out >= 0).all()
    assert (left_out <= tolerance * numbers).all()
    assert (left_out > 0).any() == (tolerance > 1e-3)  # a thousandth of a thousand units is one unit, which is needed


def test_a_sequence_that_is_near_enough_ends():
    values = torch.tensor([100, 10, 1])
    assert greedy_counts(torch.tensor([345]), values, 0.02).tolist() == [[3, 4, 0]]  # 5 of 345 are left
    assert greedy_counts(torch.tensor([345]), values, 0.05).tolist() == [[3, 3, 0]]  # 15 of 345 are left


def test_a_sequence_that_is_too_long_loses_its_smallest_values():
    tokens = serialise(greedy_counts(torch.tensor([34]), torch.tensor([10, 1])), 6)
    assert tokens.tolist() == [[3, 3, 3, 4, 4, END]]
    assert largest_residual(torch.tensor([34]), torch.tensor([10, 1]), 0.0, 6) == pytest.approx(2 / 34)


def test_vocabulary_is_short_falls_and_ends_with_the_unit():
    units = skewed_units()
    values = dynamic_quantile_values(units)
    assert values == sorted(set(values), reverse=True)
    assert values[-1] == 1
    assert 10 < len(values) < 50
    assert greedy_counts(units, torch.tensor(values)).sum(dim=1).float().mean() < 4
    assert dynamic_quantile_values(torch.zeros(5, dtype=torch.int64)) == [1]


def test_codi_scores_by_hand():
    # Three rows, of which two are alike: tokens a a b (twice), b (once); c is never used.
    counts, n_rows = torch.tensor([[2, 1, 0], [0, 1, 0]]), torch.tensor([2, 1])
    wanted = [(2 * 2 / 3) / 3 * math.log(3 / 3), (2 / 3 + 1) / 3 * math.log(3 / 4), 0]
    assert codi_scores(counts, n_rows).tolist() == pytest.approx(wanted)
    # Rows that have no token count, too.
    counts, n_rows = torch.tensor([[0, 0], [1, 3]]), torch.tensor([5, 3])
    wanted = [3 / 4 / 8 * math.log(8 / 4), 9 / 4 / 8 * math.log(8 / 4)]
    assert codi_scores(counts, n_rows).tolist() == pytest.approx(wanted)


def test_pruning_drops_the_lowest_scores_until_enough_are_left():
    units = skewed_units()
    values = with_even_quantiles(dynamic_quantile_values(units), units, 20)
    distinct, n_rows = torch.unique(units, return_counts=True)
    scores = codi_scores(greedy_counts(distinct, torch.tensor(values), 1e-3), n_rows)[:-1]  # the unit stays
    assert prune(values, units, (len(values) - 1) / len(values), 1e-3, 40) == [
        value for place, value in enumerate(values) if place != int(scores.argmin())
    ]
    kept = prune(values, units, 0.5, 1e-3, 40)
    assert len(kept) == math.ceil(len(values) / 2)
    assert set(kept) < set(values)
    assert kept[-1] == 1
    assert largest_residual(distinct, torch.tensor(kept), 1e-3, 40) <= 1e-3


def test_pruning_stops_before_a_target_cannot_be_written():
    values, units = [100, 10, 1], torch.tensor([0, 9, 99, 199, 999])
    assert prune(values, units, 0.1, 0.0, 30) == [100, 10, 1]  # without 100, 999 needs 108 tokens
    assert prune(values, units, 0.1, 0.0, 2000) == [1]


def test_too_large_a_vocabulary_is_thinned_out():
    assert thin_out([5, 3, 1], 3) == [5, 3, 1]
    assert thin_out(list(range(100, 0, -1)), 4) == [100, 67, 34, 1]
    method = GenerativeRegression(2, max_values=5, **SMALL)
    method.prepare(skewed_units() / 1000)
    assert method.values[method.values > 0].tolist()[-1] == 1
    assert (method.values > 0).sum() == 5


# The decoder.


def test_tokens_one_after_another_are_decoded_as_all_at_once():
    torch.manual_seed(0)
    decoder = SequenceDecoder(3, n_tokens=9, width=16, n_layers=2, n_heads=4, n_hidden=32, dropout=0.0)
    embedded, memory = decoder.embedding(torch.randint(0, 9, (5, 7))), decoder.remember(torch.randn(5, 3))
    whole, _ = decoder(embedded, memory)
    seen = None
    for step in range(7):
        part, seen = decoder(embedded[:, step : step + 1], memory, seen)
        assert torch.allclose(part[:, 0], whole[:, step], atol=1e-5)
    assert not torch.allclose(whole[0, 0], decoder(embedded, memory.flip(0))[0][0, 0], atol=1e-3)


# GR: loss, curriculum, decoding.


def tiny(**settings) -> GenerativeRegression:
    """Units of a quarter, tokens of two units and of one, at most two of them."""
    torch.manual_seed(0)
    method = GenerativeRegression(2, n_units=4, max_values=3, n_steps=3, window=2, **{**SMALL, **settings}).eval()
    method.set_vocabulary([2, 1])
    with torch.no_grad():  # away from even probabilities
        method.output.weight.mul_(5)
    return method


@torch.no_grad()
def next_probabilities(method: GenerativeRegression, embedded: Tensor, features: Tensor) -> Tensor:
    """Probabilities of the token after embedded ones, without a cache."""
    hidden, _ = method.decoder(embedded, method.decoder.remember(features))
    return method.logits(hidden[:, -1]).softmax(dim=1)


def test_windowed_value_by_hand():
    probabilities = torch.tensor([[0.1, 0.2, 0.4, 0.3], [0.5, 0.3, 0.1, 0.1]])
    found = windowed_value(probabilities, torch.tensor([0.0, 8.0, 4.0, 2.0]), 1)
    assert found.tolist() == pytest.approx([0.2 * 8 + 0.4 * 4 + 0.3 * 2, 0.3 * 8])


def test_teacher_shares_by_hand():
    assert teacher_share("linear", 0.5, 0.1, 3) == pytest.approx(0.2)
    assert teacher_share("linear", 0.5, 0.1, 9) == 0
    assert teacher_share("exponential", 0.5, 0.9, 2) == pytest.approx(0.405)
    assert teacher_share("sigmoid", 0.5, 10, 20) == pytest.approx(0.5 * 10 / (10 + math.exp(2)))
    assert teacher_share("sigmoid", 0.5, 10, 10**6) == pytest.approx(0)


def test_loss_by_hand_with_true_tokens_only():
    method = tiny(first_teacher_share=1.0, decay=1.0, token_weight=3.0, value_weight=7.0)
    features, y = torch.randn(3, 2), torch.tensor([0.0, 0.75, 0.5])
    written = [[END], [3, 4, END], [3, END]]
    assert method.tokens_of(y).tolist() == [[END, 0, 0], [3, 4, END], [3, END, 0]]
    entropy, value = [], []
    for row, sequence in enumerate(written):
        probabilities = [
            next_probabilities(
                method, method.decoder.embedding(torch.tensor([[START, *sequence[:step]]])), features[[row]]
            )[0]
            for step in range(len(sequence))
        ]
        entropy.append(-sum(math.log(p[token]) for p, token in zip(probabilities, sequence, strict=True)))
        soft = sum(float(windowed_value(p, method.values / 4, 1)) for p in probabilities)
        error = abs(soft - float(y[row]))
        value.append(0.5 * error**2 if error < 1 else error - 0.5)
    terms = method.loss(features, y)
    assert terms["tokens"].item() == pytest.approx(3 * np.mean(entropy), rel=1e-4)
    assert terms["value"].item() == pytest.approx(7 * np.mean(value), rel=1e-4)


@pytest.mark.parametrize("mixup", [True, False])
def test_own_answers_replace_true_tokens(mixup):
    method = tiny(first_teacher_share=0.0, mixup=mixup)
    features, tokens = torch.randn(2, 2), torch.tensor([[START, 3, 4], [START, 3, END]])
    memory, true = method.decoder.remember(features), method.decoder.embedding(tokens)
    mixed = method.mix(tokens, memory)
    assert torch.equal(mixed[:, 0], true[:, 0])
    for step in (1, 2):
        own = next_probabilities(method, true[:, :step], features)
        wanted = own @ method.decoder.embedding.weight if mixup else method.decoder.embedding(own.argmax(dim=1))
        assert torch.allclose(mixed[:, step], wanted, atol=1e-5)
    method.first_teacher_share = 1.0
    method.decay = 1.0
    assert torch.equal(method.mix(tokens, memory), true)


def test_curriculum_moves_on_while_training_only():
    method = make_method(GenerativeRegression, "value", **SMALL)
    features, y = make_rows("value")
    method.eval().loss(features, y)
    assert method.n_updates.item() == 0
    method.train().loss(features, y)
    assert method.n_updates.item() == 1


@pytest.mark.parametrize("mixup", [True, False])
def test_greedy_value_by_hand(mixup):
    method, features = tiny(mixup=mixup), 3 * torch.randn(12, 2)
    wanted = []
    for row in features[:, None]:
        embedded, total = method.decoder.embedding(torch.tensor([[START]])), 0.0
        for _ in range(3):
            probabilities = next_probabilities(method, embedded, row)
            total += float(windowed_value(probabilities, method.values / 4, 1))
            if probabilities.argmax() == END:
                break
            embedded = torch.cat([embedded, method.written(probabilities)[None]], dim=1)
        wanted.append(total)
    assert method.greedy_value(features).tolist() == pytest.approx(wanted, abs=1e-5)


def test_samples_follow_the_probabilities_of_all_sequences():
    method, features = tiny(), 2 * torch.randn(1, 2)
    wanted = dict.fromkeys(range(7), 0.0)
    for sequence in itertools.product([END, 3, 4], repeat=3):
        if any(token == END for token in sequence[:-1]) and sequence != (END, END, END):
            cut = sequence.index(END)
            if any(token != END for token in sequence[cut:]):
                continue  # the same sequence, counted once with ENDs after its end
        probability, total = 1.0, 0
        for step, token in enumerate(sequence):
            embedded = method.decoder.embedding(torch.tensor([[START, *sequence[:step]]]))
            probability *= float(next_probabilities(method, embedded, features)[0, token])
            total += int(method.values[token])
            if token == END:
                break
        wanted[total] += probability
    assert sum(wanted.values()) == pytest.approx(1, abs=1e-5)
    samples = method.sample(features, row_keys((features,), seed=0), 4000)[0]
    expected = {0.25 * min(total, 4): 0.0 for total in wanted}
    for total, probability in wanted.items():
        expected[0.25 * min(total, 4)] += probability
    for value, probability in expected.items():
        assert (samples == value).float().mean().item() == pytest.approx(probability, abs=0.02)


def test_targets_are_rounded_to_the_nearest_unit():
    method = GenerativeRegression(2, **SMALL)
    assert method.in_units(torch.tensor([0.0, 0.3, 0.0004, 0.0006, 1.0])).tolist() == [0, 300, 0, 1, 1000]


# Ord2Seq.


def test_nodes_halve_the_classes():
    assert bisection_nodes(8)[1:3].tolist() == [[2, 2, 2, 2, 3, 3, 3, 3], [4, 4, 5, 5, 6, 6, 7, 7]]
    assert bisection_nodes(2).tolist() == [[1, 1], [2, 3]]
    for n_classes in (2, 3, 5, 8, 13, 33):
        nodes = bisection_nodes(n_classes)
        assert len(nodes) == math.ceil(math.log2(n_classes)) + 1
        assert len(nodes[-1].unique()) == n_classes
        assert (nodes[1:] // 2 == nodes[:-1]).all()
        assert (nodes.diff(dim=1) >= 0).all()


def test_decision_follows_the_mass_of_the_half_then_the_likeliest_class_inside():
    method = make_method(BisectionSequence, "grades", **SMALL)  # 0 | 1 2 3 4, then 0 | 1 2 | 3 4
    first = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0, 0.0]])
    root = torch.ones(2, dtype=torch.int64)
    assert method.nodes[1][method.favourite(first, root, 0)].tolist() == [3, 2]  # four small ones beat a larger one
    second = torch.tensor([[9.0, 0.1, 0.2, 0.4, 0.3], [-1.0, 5.0, 0.0, 0.0, 0.0]])
    favourite = method.favourite(second, torch.tensor([3, 3]), 1)
    assert method.nodes[2][favourite].tolist() == [7, 6]


def test_ord2seq_learns_and_decodes_step_by_step():
    method = make_method(BisectionSequence, "grades", **SMALL).eval()
    features = 3 * make_rows("grades")[0]
    found, grades = method.decode(features), make_rows("grades")[1]
    right, index = [], int((4 * grades[0]).round())  # the loss by hand, of the first row, each step after the true node
    read = method.decoder.embedding(method.nodes[:-1, index])[None]
    hidden, _ = method.decoder(read, method.decoder.remember(features[:1]))
    for step in range(3):
        inside, logits = method.nodes[step + 1] == method.nodes[step + 1, index], method.outputs[step](hidden[0, step])
        right.append(torch.where(inside, logits.sigmoid(), (-logits).sigmoid()).log().mean())
    assert method.loss(features[:1], grades[:1])["bisection"].item() == pytest.approx(-sum(right).item(), rel=1e-5)
    memory, nodes = method.decoder.remember(features), torch.ones(len(features), 1, dtype=torch.int64)
    for step in range(3):
        hidden, _ = method.decoder(method.decoder.embedding(nodes), memory)
        logits = method.outputs[step](hidden[:, -1])
        if step < 2:
            chosen = method.nodes[step + 1][method.favourite(logits, nodes[:, -1], step)]
            nodes = torch.cat([nodes, chosen[:, None]], dim=1)
    assert torch.allclose(found, logits, atol=1e-5)
    assert torch.allclose(method.distribution(features).mean, found.softmax(dim=1) @ torch.linspace(0, 1, 5), atol=1e-6)


# GoR: its pruned vocabulary, and those of its own ablation.


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_vocabulary_of_the_ablation_writes_the_targets(vocabulary):
    y = skewed_units() / 1000
    method = GenerativeOrdinal(2, vocabulary=vocabulary, **SMALL)
    method.prepare(y)
    units, tokens = method.in_units(y), method.tokens_of(y)
    whole = (tokens == PADDING).any(dim=1)  # coins may need more of them than there is room for
    assert whole.float().mean() > 0.95
    read = method.values[tokens].sum(dim=1)
    assert ((units - read).abs()[whole] <= 1e-3 * units[whole]).all()
    assert method.loss(torch.randn(len(y), 2)[:64], y[:64])
    n_values = int((method.values > 0).sum())
    if vocabulary == "pruned":
        full = GenerativeOrdinal(2, retention=1.0, **SMALL)
        full.prepare(y)
        assert n_values == math.ceil(int((full.values > 0).sum()) / 2)
        assert (tokens != PADDING).sum(dim=1).float().mean() < 7
    elif vocabulary != "quantile":
        assert n_values == {"binary": 14, "manual": 13}[vocabulary]  # of ten thousand units
        coins = [2**bit for bit in range(9, -1, -1)], [1000, 500, 200, 100, 50, 20, 10, 5, 2, 1]
        assert method.build_vocabulary(torch.tensor([1000])) == coins[vocabulary == "manual"]
        assert method.build_vocabulary(torch.tensor([0])) == [1]


def test_another_vocabulary_is_refused():
    with pytest.raises(UserError, match="vocabulary must be one of pruned, quantile, binary, manual"):
        GenerativeOrdinal(2, vocabulary="words", **SMALL)
