import inspect
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from diffor.core.method import OrdinalEnsemble, OrdinalModel
from diffor.core.row_noise import row_keys
from diffor.encoders import TabularEncoder
from diffor.methods import METHODS
from diffor.methods.diffor import IncrementDiffusion
from diffor.training.checkpoint import CheckpointError, pack, unpack
from diffor.training.loop import (
    STATE,
    Rows,
    TrainConfig,
    TrainingRun,
    in_chunks,
    limit_threads,
    predict_in_chunks,
    train,
)

CONFIG = TrainConfig(max_steps=40, batch_size=32, evaluate_every=10, patience=100, seed=3, verbose=0)


def make_rows(n=200, weights=None):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(n, 2, generator=generator)
    inputs = (numbers, torch.zeros(n, 0, dtype=torch.int64))
    return Rows(inputs, numbers[:, 0], weights, row_keys(inputs, 0))


def make_model(seed=0, **settings):
    torch.manual_seed(seed)
    encoder = TabularEncoder(2, [], width=16, n_layers=1)
    method = IncrementDiffusion(16, n_increments=4, width=16, n_layers=1, **settings)
    return OrdinalEnsemble([OrdinalModel(encoder, method)])


def crps_score(rows):
    return lambda model: float(np.mean(predict_in_chunks(model, rows, 16).crps(rows.y.numpy())))


def weights_of(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_training_lowers_the_validation_score():
    rows = make_rows()
    config = replace(CONFIG, max_steps=150, evaluate_every=50, learning_rate=1e-2, evaluate_first=True)
    history = train(make_model(), rows, crps_score(rows), config)
    scores = [record["valid_crps"] for record in history.records]
    assert scores[-1] < 0.6 * scores[0]
    assert (history.stopped, history.steps) == ("finished", 150)
    assert {"step", "seconds", "denoise", "increment", "valid_crps"} <= set(history.records[1])


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    first, second, third = make_model(), make_model(), make_model()
    for model, seed in ((first, 3), (second, 3), (third, 4)):
        train(model, make_rows(), None, replace(CONFIG, seed=seed))
    assert torch.equal(weights_of(first), weights_of(second))
    assert not torch.equal(weights_of(first), weights_of(third))


def test_training_leaves_the_callers_random_numbers_alone():
    model = make_model()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(model, make_rows(), None, CONFIG)
    assert torch.equal(torch.rand(3), expected)


def test_every_epoch_visits_every_row_once_in_a_new_order():
    rows = make_rows(70)
    run = TrainingRun(make_model(), rows, None, replace(CONFIG, batch_size=20), "")
    visits = torch.cat([run.batches.index(step) for step in range(7)])  # 140 rows: two epochs
    for epoch in (visits[:70], visits[70:]):
        assert sorted(epoch.tolist()) == list(range(70))
    assert visits[:70].tolist() != visits[70:].tolist()


@pytest.mark.parametrize("third", [2.0, KeyboardInterrupt])
def test_the_best_weights_are_restored_also_after_ctrl_c(third):
    scores, seen = iter([3.0, 1.0, third, 2.5]), []

    def score(model):
        seen.append(weights_of(model).clone())
        found = next(scores)
        if found is KeyboardInterrupt:
            raise KeyboardInterrupt
        return found

    model, stopped = make_model(), "finished"
    with warnings.catch_warnings(record=True) as caught:
        history = train(model, make_rows(), score, CONFIG)
    if third is KeyboardInterrupt:
        stopped = "interrupted"
        assert "interrupted at step 30: the best model so far is kept" in str(caught[0].message)
    assert (history.stopped, history.best_step, history.best_score) == (stopped, 20, 1.0)
    assert torch.equal(weights_of(model), seen[1])


def test_without_early_stopping_all_steps_are_made_and_the_last_weights_kept():
    kept = {}
    for early_stopping in (True, False):
        scores = iter([1.0, 5.0, 2.0, 3.0, 4.0])
        model = make_model()
        config = replace(CONFIG, patience=2, early_stopping=early_stopping, ema=0.0)
        kept[early_stopping] = train(model, make_rows(), lambda _, scores=scores: float(next(scores)), config), model
    history, model = kept[False]
    assert (history.steps, history.stopped, history.best_step, history.best_score) == (40, "finished", 40, 3.0)
    alone = make_model()
    train(alone, make_rows(), None, replace(CONFIG, ema=0.0))
    assert torch.equal(weights_of(model), weights_of(alone))
    assert kept[True][0].steps == 30
    assert not torch.equal(weights_of(model), weights_of(kept[True][1]))


def test_training_stops_when_the_score_no_longer_falls():
    scores = iter(range(100))
    history = train(make_model(), make_rows(), lambda _: float(next(scores)), replace(CONFIG, patience=2))
    assert history.stopped == "no better validation score"
    assert history.steps == 30  # best at 10, then two evaluations without a better one


def test_training_stops_at_the_time_limit_and_is_scored():
    history = train(make_model(), make_rows(), lambda _: 1.0, replace(CONFIG, max_steps=10**6, time_limit=0.3))
    assert history.stopped == "time limit"
    assert 0.3 <= history.seconds < 5
    assert history.best_score == 1.0


def test_the_rate_warms_up_and_falls_to_nearly_zero_whichever_ends_the_run():
    run = TrainingRun(make_model(), make_rows(), None, replace(CONFIG, max_steps=100, warmup_share=0.1), "")
    rates = []
    for step in range(100):
        run.history.steps = step
        rates.append(run.rate_factor())
    assert rates[:10] == sorted(rates[:10])
    assert rates[0] == pytest.approx(1 / 11)
    assert rates[10] == pytest.approx(1.0)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] < 0.001

    run = TrainingRun(make_model(), make_rows(), None, replace(CONFIG, max_steps=10**6, time_limit=100.0), "")
    run.history.steps, run.seconds_before = 10, 99.9
    assert run.rate_factor() < 0.01


def test_a_loss_that_is_not_finite_stops_with_step_and_cure():
    rows = make_rows()
    rows.inputs[0][:] = float("nan")
    with pytest.raises(FloatingPointError, match=r"became nan at step 0: lower learning_rate \(now 0.006\)"):
        train(make_model(), rows, None, CONFIG)


def test_rows_of_weight_zero_do_not_count():
    torch.manual_seed(0)
    rows = make_rows(64)
    model = make_model().eval()
    other = replace(rows, y=torch.where(torch.arange(64) < 32, rows.y, 1 - rows.y))
    weights = (torch.arange(64) < 32).float() * 2

    def losses(of, weight):
        torch.manual_seed(1)
        return model(of.inputs, of.y, weight)

    weighted = losses(rows, weights), losses(other, weights)
    assert all(torch.equal(weighted[0][name], weighted[1][name]) for name in weighted[0])
    assert losses(rows, None)["denoise"] != losses(other, None)["denoise"]


@pytest.mark.parametrize("steps_before", [10, 30])
def test_a_resumed_run_repeats_an_uninterrupted_one_bit_for_bit(tmp_path, steps_before):
    rows, calls = make_rows(), iter(range(10))

    def dying_score(model):
        if next(calls) == steps_before // 10:
            raise ZeroDivisionError("killed")
        return crps_score(rows)(model)

    whole, resumed = make_model(), make_model()
    train(whole, rows, crps_score(rows), CONFIG)
    config = replace(CONFIG, checkpoint_dir=str(tmp_path))
    with pytest.raises(ZeroDivisionError, match="killed"):
        train(make_model(), rows, dying_score, config)
    history = train(resumed, rows, crps_score(rows), config)
    assert history.steps == 40
    assert [record["step"] for record in history.records] == [10, 20, 30, 40]
    assert torch.equal(weights_of(whole), weights_of(resumed))


def fit_regressor(folder):
    import numpy as np

    from diffor import DiffoRRegressor

    X = np.random.default_rng(0).normal(size=(300, 3))
    settings = {"prior": None, "max_steps": 200, "evaluate_every": 5, "patience": 1000, "checkpoint_dir": folder}
    return DiffoRRegressor("fast", **settings, random_state=1, verbose=0).fit(X, X[:, 0] + 0.1 * X[:, 1])


def test_kill_9_loses_at_most_one_interval_and_resuming_gives_the_same_weights(tmp_path):
    script = (
        f"import torch; torch.set_num_threads(1)\n{inspect.getsource(fit_regressor)}fit_regressor({str(tmp_path)!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 120
    while not (tmp_path / STATE).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)  # somewhere in the middle of the following steps
    assert process.wait() == -signal.SIGKILL
    begun = unpack(tmp_path / STATE)[1]["history"]
    assert begun["stopped"] == "running"
    resumed, whole = fit_regressor(tmp_path), fit_regressor(None)
    records = resumed.history_.records
    assert [record["step"] for record in records] == [5 * count for count in range(41)]
    for kept, record in zip(begun["records"], records, strict=False):  # with the seconds of the one that was killed
        assert kept.items() <= record.items()
    (_, found), (_, expected) = resumed.saved_state(), whole.saved_state()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_finished_run_is_not_trained_again(tmp_path):
    config = replace(CONFIG, checkpoint_dir=str(tmp_path))
    first, second = make_model(), make_model()
    train(first, make_rows(), lambda _: 1.0, config)
    history = train(second, make_rows(), lambda _: pytest.fail("must not be scored again"), config)
    assert history.steps == 40
    assert torch.equal(weights_of(first), weights_of(second))


def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path):
    config = replace(CONFIG, checkpoint_dir=str(tmp_path))
    train(make_model(), make_rows(), None, config, fingerprint="one")
    before = (tmp_path / STATE).read_bytes()
    with pytest.raises(CheckpointError, match="other data or settings: choose another checkpoint_dir or delete it"):
        train(make_model(), make_rows(), None, config, fingerprint="two")
    assert (tmp_path / STATE).read_bytes() == before


def test_the_average_forgets_the_random_start():
    model = make_model()
    start = weights_of(model).clone()
    train(model, make_rows(), None, replace(CONFIG, max_steps=100, ema=0.999))
    plain = make_model()
    train(plain, make_rows(), None, replace(CONFIG, max_steps=100, ema=0.0))
    assert (weights_of(model) - weights_of(plain)).norm() < 0.5 * (start - weights_of(plain)).norm()


def test_chunks_cover_all_rows_and_do_not_change_predictions(monkeypatch):
    rows, model = make_rows(100), make_model().eval()
    whole = predict_in_chunks(model, rows, 8).samples
    monkeypatch.setattr("diffor.training.loop.PREDICT_ROWS", 128)
    assert [len(piece) for piece in in_chunks(rows, 8)] == [16] * 6 + [4]
    np.testing.assert_allclose(predict_in_chunks(model, rows, 8).samples, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("asked", "used"), [(None, 1), (2, min(2, os.cpu_count())), (-1, os.cpu_count()), (10**9, os.cpu_count())]
)
def test_threads_are_limited_and_given_back_even_after_an_error(asked, used):
    before = torch.get_num_threads()
    with limit_threads(asked):
        assert torch.get_num_threads() == used
    with pytest.raises(ZeroDivisionError), limit_threads(asked):
        _ = 1 / 0
    assert torch.get_num_threads() == before


# What methods say about their own training.


def test_diagnostics_are_logged_where_asked_for_and_change_no_weights():
    rows = make_rows()
    silent, talking = make_model(), make_model()
    without = train(silent, rows, crps_score(rows), CONFIG)
    history = train(talking, rows, crps_score(rows), replace(CONFIG, diagnose=True))
    assert torch.equal(weights_of(silent), weights_of(talking))
    assert without.diagnostics == []
    assert [record["step"] for record in history.diagnostics] == [10, 20, 30, 40]
    for record in history.diagnostics:
        assert -1 <= record["denoise_cosine"] <= 1
        assert -1 <= record["increment_cosine"] <= 1
        assert 0 <= record["increment_conflicts"] <= 1
    assert len({record["denoise_cosine"] for record in history.diagnostics}) == 4
    assert set(history.records[0]) == set(without.records[0])


def test_diagnostics_are_means_over_members_and_empty_for_methods_without_any():
    rows = make_rows()
    members = [make_model(seed).models[0].eval() for seed in (0, 1)]
    run = TrainingRun(OrdinalEnsemble(members), rows, None, CONFIG, "")
    same = rows.take(run.batches.index(0))
    alone = [member.method.diagnostics(member.features(same.inputs).clone(), same.y) for member in members]
    expected = {name: (alone[0][name] + alone[1][name]) / 2 for name in alone[0]}
    assert run.diagnostics() == pytest.approx(expected)
    point = OrdinalModel(TabularEncoder(2, [], width=16, n_layers=1), METHODS["value-squared"](16))
    history = train(OrdinalEnsemble([point]), rows, None, replace(CONFIG, diagnose=True))
    assert history.diagnostics[0] == {"step": 10}


def test_diagnostics_survive_a_checkpoint(tmp_path):
    config = replace(CONFIG, diagnose=True, checkpoint_dir=str(tmp_path))
    whole = train(make_model(), make_rows(), None, replace(config, checkpoint_dir=None))
    train(make_model(), make_rows(), None, config)
    again = train(make_model(), make_rows(), None, config)
    assert again.diagnostics == whole.diagnostics


SPOILT = {
    "steps that are no number": lambda tensors, facts: facts["history"].update(steps="many"),
    "another weight": lambda tensors, facts: tensors["values"].add_(1.0),
    "no average": lambda tensors, facts: tensors.pop("average"),
    "a part of a tensor": lambda tensors, facts: tensors.update(first=tensors["first"][:5]),
    "no digest": lambda tensors, facts: facts.pop("digest"),
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_damaged_checkpoint_is_not_continued(tmp_path, spoil):
    config = replace(CONFIG, checkpoint_dir=str(tmp_path))
    train(make_model(), make_rows(), None, config, fingerprint="one")
    tensors, facts = unpack(tmp_path / STATE)
    SPOILT[spoil](tensors, facts)
    (tmp_path / STATE).write_bytes(pack(tensors, facts))
    with pytest.raises(CheckpointError, match=r"is damaged: .*delete it to start anew"):
        train(make_model(), make_rows(), None, config, fingerprint="one")


def test_a_pipe_in_place_of_a_checkpoint_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / STATE)
    with pytest.raises(CheckpointError, match="must be an ordinary file, but it is a pipe"):
        train(make_model(), make_rows(), None, replace(CONFIG, checkpoint_dir=str(tmp_path)))
