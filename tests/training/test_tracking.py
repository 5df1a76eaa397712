"""Figures of a fit, read back with the libraries that they are written for."""

import importlib.util
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor import DiffoRRegressor
from diffor.cli.main import main
from diffor.training.tracking import Tracker, make_tracker

pytest.importorskip("tensorboard", reason="tensorboard is an optional extra")

X = np.linspace(0, 1, 80)[:, None]
Y = 10 * X[:, 0]
TINY = {"preset": "fast", "prior": None, "evaluate_every": 5, "random_state": 0, "verbose": 0}


class Notebook(Tracker):
    """A tracker of one's own, which keeps what it is told."""

    def __init__(self, fails_at=None):
        self.lines: list[tuple[Any, ...]] = []
        self.fails_at = fails_at

    def open(self, name, settings):
        self.lines.append(("open", name, dict(settings)))

    def start(self, part, step):
        self.lines.append(("start", part, step))

    def log(self, part, step, figures):
        if step == self.fails_at:
            raise ConnectionError("the server\nis gone")
        self.lines.append(("log", part, step, dict(figures)))

    def close(self, status, figures):
        self.lines.append(("close", status, dict(figures)))


def scalars(folder):
    """What TensorBoard's own reader finds in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def as_curve(model, name):
    return [(record["step"], pytest.approx(record[name], rel=1e-5)) for record in model.history_.records]


class CrashError(Exception):
    """Ends a fit as a crash would, between two checkpoints."""


@pytest.fixture
def dies_after_step_ten(monkeypatch):
    """Fits end right after step 10 was logged, before it is in the checkpoint."""
    from diffor.training.loop import TrainingRun

    saving = TrainingRun.save

    def save(run):
        if run.history.steps == 10:
            raise CrashError
        saving(run)

    monkeypatch.setattr(TrainingRun, "save", save)
    return lambda: monkeypatch.setattr(TrainingRun, "save", saving)


def test_a_tracker_of_ones_own_is_told_everything_in_order():
    notebook = Notebook()
    model = DiffoRRegressor(**TINY, max_steps=10, learning_rate=0.01, log_to=notebook).fit(X, Y)
    plain = DiffoRRegressor(**TINY, max_steps=10, learning_rate=0.01).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))  # logging changes nothing
    assert [line[0] for line in notebook.lines] == ["open", "start", "log", "log", "log", "close"]
    name, settings = notebook.lines[0][1:]
    assert name.startswith("fast-")
    assert (settings["max_steps"], settings["seed"]) == (10, model.seed_)
    assert notebook.lines[1] == ("start", "", 0)
    rates = [line[3].pop("learning_rate") for line in notebook.lines[2:5]]
    for line, record in zip(notebook.lines[2:5], model.history_.records, strict=True):
        figures = line[3]
        assert line[2] == record["step"]
        assert figures == {name: value for name, value in record.items() if name not in ("step", "kind")}
        assert {"valid_crps", "seconds"} <= set(figures)
    assert "cross_entropy" in notebook.lines[3][3]  # at the start there is no loss yet
    share = (0.5 - 0.05) / 0.95  # of the cosine after the warm-up, at the next step
    assert rates[1:] == [pytest.approx(0.01 * 0.5 * (1 + np.cos(np.pi * share))), pytest.approx(0.0, abs=1e-12)]
    history = model.history_
    totals = {"valid_crps": history.best_score, "best_step": history.best_step, "steps": 10,
              "seconds": history.seconds}  # fmt: skip
    assert notebook.lines[5] == ("close", "finished", totals)


def test_kinds_after_the_first_are_a_part_of_their_own(tmp_path):
    given = {**TINY, "preset": "balanced", "max_steps": 10}
    DiffoRRegressor(**given, log_to=f"tensorboard:{tmp_path}").fit(X, Y)
    (run,) = tmp_path.iterdir()
    own, later = scalars(run), scalars(run / "kind-1")
    assert [step for step, _ in own["valid_crps"]] == [step for step, _ in later["valid_crps"]] == [0, 5, 10]
    assert own["valid_crps"] != later["valid_crps"]


def test_a_tracker_that_fails_on_the_way_costs_the_log_and_not_the_fit():
    notebook = Notebook(fails_at=10)
    with pytest.warns(UserWarning, match="logging stopped, the fit goes on .* ConnectionError: the server is gone"):
        model = DiffoRRegressor(**TINY, max_steps=20, log_to=notebook).fit(X, Y)
    assert model.history_.steps == 20
    assert [line[0] for line in notebook.lines] == ["open", "start", "log", "log"]


def test_a_fit_that_fails_says_so():
    notebook = Notebook()
    settings = {"max_steps": 30, "method_settings": {"increment_weight": 1e308}, "verbose": 0}
    with pytest.raises(FloatingPointError, match="the loss became"):
        DiffoRRegressor("paper", **settings, log_to=notebook).fit(X, Y)
    assert notebook.lines[-1] == ("close", "failed", {})


def test_tensorboard_reads_losses_scores_and_settings(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = DiffoRRegressor(**TINY, max_steps=15, log_to=f"tensorboard:{tmp_path}").fit(X, Y)
    (run,) = tmp_path.iterdir()
    curves = scalars(run)
    for name in set(model.history_.records[0]) - {"step", "kind"}:
        assert curves[name] == as_curve(model, name), name
    assert [step for step, _ in curves["learning_rate"]] == [0, 5, 10, 15]
    assert curves["fit/valid_crps"] == [(15, pytest.approx(model.history_.best_score))]
    text = EventAccumulator(str(run)).Reload()
    assert {"settings/text_summary", "_hparams_/session_start_info"} & set(text.summary_metadata)
    stored = text.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert json.loads(stored.strip("`\n"))["max_steps"] == 15


def test_other_rows_or_settings_have_another_folder_and_the_same_have_the_same(tmp_path):
    place = f"tensorboard:{tmp_path}"
    for n_rows, steps in ((80, 5), (70, 5), (80, 10), (80, 5)):
        DiffoRRegressor(**TINY, max_steps=steps, log_to=place).fit(X[:n_rows], Y[:n_rows])
    runs = list(tmp_path.iterdir())
    assert len(runs) == 3
    assert all(len(scalars(run)["valid_crps"]) in (2, 3) for run in runs)


def test_a_resumed_fit_shows_no_step_twice_in_tensorboard(tmp_path, dies_after_step_ten):
    model = DiffoRRegressor(
        **TINY, max_steps=20, checkpoint_dir=tmp_path / "state", log_to=f"tensorboard:{tmp_path / 'runs'}"
    )
    with pytest.raises(CrashError):
        model.fit(X, Y)
    (run,) = (tmp_path / "runs").iterdir()
    assert [step for step, _ in scalars(run)["valid_crps"]] == [0, 5, 10]
    dies_after_step_ten()
    model.fit(X, Y)
    assert scalars(run)["valid_crps"] == as_curve(model, "valid_crps")
    assert len(scalars(run)["valid_crps"]) == 5
    before = scalars(run)
    model.fit(X, Y)  # it had ended: nothing is trained, nothing is logged
    assert scalars(run) == before


def test_mlflow_holds_metrics_and_parameters_and_a_resumed_fit_continues_its_run(tmp_path, dies_after_step_ten):
    pytest.importorskip("mlflow", reason="mlflow is an optional extra")
    from mlflow import MlflowClient

    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    model = DiffoRRegressor(**TINY, max_steps=20, checkpoint_dir=tmp_path / "state", log_to=f"mlflow:{address}#prices")
    client = MlflowClient(tracking_uri=address)

    def runs():
        return list(client.search_runs([client.get_experiment_by_name("prices").experiment_id]))

    with pytest.raises(CrashError):
        model.fit(X, Y)
    assert [run.info.status for run in runs()] == ["FAILED"]
    dies_after_step_ten()
    model.fit(X, Y)
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert (run.data.params["max_steps"], run.data.params["method"]) == ("20", "diffor")
    for name in ("valid_crps", "learning_rate", "seconds", "cross_entropy"):
        steps = sorted(metric.step for metric in client.get_metric_history(run.info.run_id, name))
        assert steps == [0, 5, 10, 15, 20][name == "cross_entropy" :], name  # before the first step there is no loss
    # Step 10 was logged before the crash; training it again gives the same to the last bit.
    found = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, "valid_crps")}
    assert found == {record["step"]: record["valid_crps"] for record in model.history_.records}
    assert run.data.metrics["fit/valid_crps"] == model.history_.best_score

    refused = DiffoRRegressor(**TINY, max_steps=5, log_to=f"mlflow:file://{tmp_path}/store")
    with pytest.raises(ValueError, match=r"log_to must be a place that can be written, but .*; choose another"):
        refused.fit(X, Y)
    assert not hasattr(refused, "model_")


@pytest.mark.parametrize("place", ["tensorbord:runs", "tensorboard:", "wandb:x", ""])
def test_an_unknown_place_is_refused_before_anything_is_fitted(place):
    with pytest.raises(ValueError, match=r"log_to must be tensorboard:FOLDER, mlflow:ADDRESS or a Tracker, but"):
        DiffoRRegressor(**TINY, log_to=place).fit(X, Y)


def test_the_command_line_logs_and_refuses(tmp_path, capsys, monkeypatch):
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rows.csv", index=False)
    command = ["fit", str(tmp_path / "rows.csv"), "--target", "y", "--preset", "fast", "--no-prior", "--max-steps",
               "10", "--quiet", "--out", str(tmp_path / "model")]  # fmt: skip
    assert main([*command, "--log-to", "tensorbord:runs"]) == 2
    assert "did you mean 'tensorboard'" in capsys.readouterr().err
    assert main([*command, "--log-to", f"tensorboard:{tmp_path / 'secret'}"]) == 0
    (run,) = (tmp_path / "secret").iterdir()
    assert [step for step, _ in scalars(run)["valid_crps"]] == [0, 10]
    assert "secret" not in (tmp_path / "model" / "config.json").read_text()  # where it was logged is not saved
    assert diffor.load(tmp_path / "model").log_to is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([*command, "--force", "--log-to", "tensorboard:runs"]) == 2
    assert 'pip install "diffor[tensorboard]"' in capsys.readouterr().err
    with pytest.raises(ImportError, match=r'needs the package mlflow: pip install "diffor\[mlflow\]"'):
        make_tracker("mlflow:sqlite:///a.db")


def test_nothing_of_it_is_imported_unless_it_is_asked_for():
    script = (
        "import sys, numpy as np; from diffor import DiffoRRegressor; X = np.linspace(0, 1, 20)[:, None];"
        "DiffoRRegressor('fast', prior=None, max_steps=2, verbose=0).fit(X, X[:, 0]);"
        "print(sorted({'tensorboard', 'mlflow', 'huggingface_hub', 'skpro', 'optuna'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
