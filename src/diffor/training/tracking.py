"""Experiment tracking: losses and scores of a running fit, sent to TensorBoard, MLflow or a tracker of one's own."""

from __future__ import annotations

import importlib.util
import json
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from diffor.errors import UserError, did_you_mean

EXPERIMENT = "diffor"
"""MLflow's experiment where the target names none."""
RUN_TAG = "diffor.run"
"""MLflow's tag that holds the name of data and settings, by which a resumed fit finds its run."""
LONGEST_PARAMETER = 500
"""Characters of a setting that MLflow is told, which refuses long ones."""


class Tracker(ABC):
    """Where the figures of a fit go.

    A fit calls ``open`` once, then ``start`` and ``log`` for each part that is trained (the members, then their
    partners, if there are any), and ``close``.
    """

    @abstractmethod
    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begin: ``name`` stands for data and settings, so that a resumed fit has the same."""

    @abstractmethod
    def start(self, part: str, step: int) -> None:
        """A part (empty for the members) starts after ``step``; what was logged beyond it will come again."""

    @abstractmethod
    def log(self, part: str, step: int, figures: Mapping[str, float]) -> None:
        """Figures of a part at a step."""

    @abstractmethod
    def close(self, status: str, figures: Mapping[str, float]) -> None:
        """End as ``finished``, ``interrupted`` or ``failed``, with the figures of the whole fit where it is new.

        Among them is ``steps``; there are none where the fit did not end, or had ended before.
        """


class TensorBoardTracker(Tracker):
    """Event files for TensorBoard, in a folder of each run below the given one, named after its data and settings.

    A resumed fit writes on in the same folder. What it computes again is marked, and TensorBoard shows it once.
    """

    def __init__(self, folder: str) -> None:
        self.root = Path(folder)
        self.folder = self.root
        self.settings: Mapping[str, Any] = {}
        self.writers: dict[str, Any] = {}

    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Name the folder of this run."""
        self.folder, self.settings, self.writers = self.root / name, settings, {}

    def start(self, part: str, step: int) -> None:
        """Open the file of a part; TensorBoard drops what the folder holds beyond the step."""
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(self.folder / part), purge_step=step + 1 if step else 0)
        if not part:
            text = json.dumps(self.settings, indent=1, default=str)
            writer.add_text("settings", f"```\n{text}\n```", step)
        self.writers[part] = writer

    def log(self, part: str, step: int, figures: Mapping[str, float]) -> None:
        """Write figures as scalars, at once, so that they can be watched."""
        for name, value in figures.items():
            self.writers[part].add_scalar(name, value, step)
        self.writers[part].flush()

    def close(self, status: str, figures: Mapping[str, float]) -> None:
        """Write the settings with the figures they led to, for TensorBoard's table of runs, and close the files."""
        from torch.utils.tensorboard.summary import hparams

        if "" in self.writers and figures:
            kinds = (bool, int, float, str)
            plain = {name: value if isinstance(value, kinds) else str(value) for name, value in self.settings.items()}
            totals = {f"fit/{name}": value for name, value in figures.items()}
            for summary in hparams(plain, totals):  # type: ignore[no-untyped-call]
                self.writers[""].file_writer.add_summary(summary)
            for name, value in totals.items():
                self.writers[""].add_scalar(name, value, int(figures["steps"]))
        for writer in self.writers.values():
            writer.close()


class MLflowTracker(Tracker):
    """A run in an MLflow store, as in ``sqlite:///mlflow.db`` or on a server; ``#NAME`` after it names the experiment.

    A resumed fit continues the run that has its data and settings, from the first step that is not in it.
    """

    def __init__(self, place: str) -> None:
        self.address, _, experiment = place.partition("#")
        self.experiment = experiment or EXPERIMENT
        self.client: Any = None
        self.run_id: str | None = None
        self.name, self.settings = "", {}  # type: tuple[str, Mapping[str, Any]]
        self.last: dict[str, int] = {}

    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Connect to the store, which makes the database if there is none."""
        from mlflow import MlflowClient

        self.client = MlflowClient(tracking_uri=self.address)
        self.run_id, self.name, self.settings, self.last = None, name, settings, {}
        found = self.client.get_experiment_by_name(self.experiment)
        self.experiment_id = self.client.create_experiment(self.experiment) if found is None else found.experiment_id

    def start(self, part: str, step: int) -> None:
        """Continue the run of a resumed fit, or begin one."""
        from mlflow.entities import Param

        if self.run_id is None:
            same = f"tags.`{RUN_TAG}` = '{self.name}'"
            runs = self.client.search_runs([self.experiment_id], same, max_results=1) if step else []
            if not runs:
                settings = [Param(name, str(value)[:LONGEST_PARAMETER]) for name, value in self.settings.items()]
                runs = [self.client.create_run(self.experiment_id, tags={RUN_TAG: self.name}, run_name=self.name)]
                self.client.log_batch(runs[0].info.run_id, params=settings)
            self.run_id = str(runs[0].info.run_id)
            self.client.update_run(self.run_id, status="RUNNING")
        history = self.client.get_metric_history(self.run_id, self.metric_name(part, "seconds")) if step else []
        self.last[part] = max((metric.step for metric in history), default=-1)

    @staticmethod
    def metric_name(part: str, name: str) -> str:
        """The name of a part's figure in the run."""
        return f"{part}/{name}" if part else name

    def log(self, part: str, step: int, figures: Mapping[str, float]) -> None:
        """Write figures as metrics, unless the run has those of this step."""
        if step > self.last[part]:
            self.write({self.metric_name(part, name): value for name, value in figures.items()}, step)

    def write(self, figures: Mapping[str, float], step: int) -> None:
        """Write metrics in one request."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self.client.log_batch(self.run_id, [Metric(name, float(value), now, step) for name, value in figures.items()])

    def close(self, status: str, figures: Mapping[str, float]) -> None:
        """Write the figures of the whole fit and end the run."""
        if self.run_id is None:
            return
        if figures:
            self.write({f"fit/{name}": value for name, value in figures.items()}, int(figures["steps"]))
        state = {"finished": "FINISHED", "interrupted": "KILLED"}.get(status, "FAILED")
        self.client.set_terminated(self.run_id, state)


TRACKERS = {"tensorboard": TensorBoardTracker, "mlflow": MLflowTracker}
"""Trackers by the word before the colon, which is also the package's name and that of the extra."""


def make_tracker(log_to: str | Tracker | None) -> Tracker | None:
    """The tracker that an estimator's ``log_to`` names; refuses one that does not exist or cannot be used here.

    >>> make_tracker("tensorboard:runs/a").root.name
    'a'
    """
    if log_to is None or isinstance(log_to, Tracker):
        return log_to
    kind, _, place = str(log_to).partition(":")
    if kind not in TRACKERS or not place:
        raise UserError(
            "log_to must be tensorboard:FOLDER, mlflow:ADDRESS or a Tracker, "
            f"but got log_to={log_to!r}{did_you_mean(kind, TRACKERS) if kind not in TRACKERS else ''}; "
            "as in 'tensorboard:runs' or 'mlflow:sqlite:///mlflow.db'"
        )
    if importlib.util.find_spec(kind) is None:
        raise ImportError(f'log_to={kind}:... needs the package {kind}: pip install "diffor[{kind}]"')
    return TRACKERS[kind](place)


class Tracking:
    """Sends a fit's figures to a tracker; where that fails on the way, it warns once and the fit goes on without."""

    def __init__(self, tracker: Tracker | None) -> None:
        self.tracker, self.part = tracker, ""
        self.past: set[str] = set()
        """What has been sent, and ``failure`` after one; all parts share it."""

    def of(self, part: str) -> Tracking:
        """The same for another part of the fit."""
        other = copy(self)
        other.part = part
        return other

    def start(self, step: int) -> None:
        """Training starts after this step."""
        self.send("start", self.part, step)

    def log(self, figures: Mapping[str, float]) -> None:
        """Figures at their ``step``."""
        others = {name: value for name, value in figures.items() if name != "step"}
        self.send("log", self.part, int(figures["step"]), others)

    def close(self, status: str, figures: Mapping[str, float]) -> None:
        """The fit has ended; its figures are told if it is this one that they come from."""
        self.send("close", status, figures if "log" in self.past and status == "finished" else {})

    def send(self, what: str, *arguments: Any) -> None:
        """Call the tracker, unless there is none or it has failed before."""
        if self.tracker is None or "failure" in self.past:
            return
        try:
            getattr(self.tracker, what)(*arguments)
            self.past.add(what)
        except Exception as error:  # hours of training are worth more than their log
            self.past.add("failure")
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            warnings.warn(f"logging stopped, the fit goes on without it: {reason}", stacklevel=4)


@contextmanager
def tracked(
    log_to: str | Tracker | None, name: str, settings: Mapping[str, Any]
) -> Iterator[tuple[Tracking, dict[str, Any]]]:
    """A fit whose figures are tracked: gives where to send them, and a dictionary to fill with the final ones.

    The dictionary's ``stopped`` says why training ended, all else in it are numbers. A target that cannot be opened is
    an error, since nothing is lost yet.
    """
    tracking, final = Tracking(make_tracker(log_to)), dict[str, Any]()
    if tracking.tracker is not None:
        try:
            tracking.tracker.open(name, settings)
        except Exception as error:
            raise UserError(
                f"log_to must be a place that can be written, but log_to={log_to!r} fails with "
                f"{type(error).__name__}: {' '.join(str(error).split())}; choose another"
            ) from error
    try:
        yield tracking, final
    except BaseException as error:
        tracking.close("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", {})
        raise
    status = "interrupted" if final.pop("stopped", None) == "interrupted" else "finished"
    tracking.close(status, {key: float(value) for key, value in final.items() if value is not None})
