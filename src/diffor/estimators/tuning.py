"""Searching settings with Optuna: a space for each preset, the same held-back rows for every trial, resumable."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from diffor.errors import UserError, did_you_mean
from diffor.estimators.api import Estimator
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.settings import Settings, Space, resolve_settings
from diffor.estimators.tuning_data import TuningData
from diffor.files.locks import alone

DEFAULT_TRIALS = 25
STUDY = "diffor"
AS_GIVEN = "as given"
"""Mark of the trial that changes no setting."""
FINISHED, FAILED, CUT = "finished", "failed", "cut short"
INTERRUPTED, TIME_LIMIT = "interrupted", "time limit"
OF_VALUES = ("n_increments",)
"""Settings of amounts: grades have a step for each border."""
OF_TABLES = ("n_increments", "batch_size")
"""Settings of tables: batches of images are as large as memory allows."""


@dataclass(frozen=True)
class Trial:
    """One set of settings that was tried: its score if it finished, the reason if it did not."""

    number: int
    params: dict[str, Any]
    state: str
    score: float | None = None
    seconds: float | None = None
    message: str = ""


@dataclass(frozen=True)
class Tuned:
    """What a search found: the best settings, beside those that the estimator has by itself, and all that was tried."""

    best_params: dict[str, Any]
    best_score: float
    default_score: float | None
    trials: list[Trial] = field(repr=False)
    stopped: str = FINISHED
    """``finished``, ``time limit`` or ``interrupted``."""
    estimator: Any = field(default=None, repr=False)
    """The best settings fitted on all rows, if that was asked for."""


def tune(
    estimator: Estimator,
    X: Any,
    y: Any,
    *,
    n_trials: int | None = None,
    time_limit: float | None = None,
    study: str | Path | None = None,
    n_folds: int | None = None,
    space: Space | None = None,
    random_state: int = 0,
    refit: bool = True,
    verbose: int = 1,
    sample_weight: Any = None,
    **side: Any,
) -> Tuned:
    """Search the settings that an estimator leaves to its preset for the lowest CRPS on rows kept out of training.

    The first trial is the estimator as it is, so the best is never worse on these rows: a fifth of all, or each fold in
    turn where there are ``n_folds``. For grades the score is the ranked probability score. ``space`` replaces
    :func:`search_space`.

    A ``study`` is a file (SQLite) from which a search is continued: ``n_trials`` (25 where there is no time limit
    either) count those that are in it, ``time_limit`` counts the seconds of this call, without the last fit on all
    rows. A trial that is cut short, by time, Ctrl-C or a crash, is run again when the search is continued. Without a
    time limit, the same ``random_state`` gives the same trials, in one go or continued.
    """
    if importlib.util.find_spec("optuna") is None:
        raise ImportError('tuning needs the package optuna: pip install "diffor[tune]"')
    if n_trials is not None and n_trials < 1:
        raise UserError(f"n_trials must be at least 1, but got n_trials={n_trials}")
    if time_limit is not None and not time_limit > 0:
        raise UserError(f"time_limit must be positive seconds or None, but got time_limit={time_limit}")
    if n_folds is not None and n_folds < 2:
        raise UserError(f"n_folds must be at least 2, or None for a fifth of the rows, but got n_folds={n_folds}")
    rows = TuningData(estimator, X, y, sample_weight, side)
    base = _prepare(estimator, rows.grades, random_state)
    chosen = _check_space(base, search_space(base) if space is None else space)
    parts = rows.split(n_folds, random_state)
    search = _Search(base, rows, parts, chosen, random_state)
    with _study_lock(study), _quiet_optuna():
        search.open(study, rows.fingerprint(base, parts, chosen, random_state))
        limit = DEFAULT_TRIALS if n_trials is None and time_limit is None else n_trials
        stopped = search.run(limit, time_limit, verbose)
        found = search.result(stopped)
    if not refit:
        return found
    best = clone(base).set_params(**found.best_params, verbose=verbose)
    rows.fit(best, None)
    return replace(found, estimator=best)


def search_space(estimator: Any) -> Space:
    """The settings of an estimator that are worth searching: of its preset's space, those that it leaves at None.

    >>> from diffor import DiffoRRegressor
    >>> sorted(search_space(DiffoRRegressor("fast", batch_size=64)))
    ['learning_rate', 'n_increments', 'weight_decay']
    """
    given = estimator.get_params(deep=False)
    left_out: tuple[str, ...] = OF_VALUES if isinstance(estimator, GradeEstimator) else ()
    if resolve_settings(estimator.preset, given).reads_images:
        left_out += OF_TABLES
    spaces = {one.name: one.metadata["search"][estimator.preset] for one in fields(Settings)}
    return {
        name: space
        for name, space in spaces.items()
        if space is not None and name in given and given[name] is None and name not in left_out
    }


def _prepare(estimator: Estimator, grades: list[Any] | None, random_state: int) -> Any:
    """The estimator as all trials have it: with a seed, all grades, and no files."""
    changed: dict[str, Any] = {"checkpoint_dir": None, "log_to": None}
    if estimator.random_state is None:
        changed["random_state"] = random_state
    if grades is not None:
        changed["grades"] = grades
    base = clone(estimator).set_params(**changed)
    resolve_settings(base.preset, base.get_params(deep=False))  # what is wrong is said before the first trial
    return base


def _check_space(base: Any, space: Space) -> Space:
    """Refuse a space of settings that the estimator does not have, and one without any."""
    known = base.get_params(deep=False)
    for name in space:
        if name not in known:
            raise UserError(
                f"space must name settings of {type(base).__name__}, but got {name!r}{did_you_mean(name, known)}"
            )
    if not space:
        raise UserError(
            "there must be something to search, but every setting of the space is given to the estimator; "
            "leave some at None, or pass space="
        )
    return space


class _CutShortError(Exception):
    """A trial ended before its fit had; the argument says why."""


class _Search:
    """Trials of one study, one after the other."""

    def __init__(self, base: Any, rows: TuningData, parts: list[Any], space: Space, random_state: int) -> None:
        self.base, self.rows, self.parts, self.space = base, rows, parts, space
        self.random_state = random_state
        self.study: Any = None

    def open(self, path: str | Path | None, fingerprint: str) -> None:
        """Begin a study, or continue the one in the file; trials that were under way are put in line again."""
        import optuna

        storage = None if path is None else f"sqlite:///{Path(path).absolute()}"
        if path is not None and Path(path).exists() and not Path(path).is_file():  # a pipe would be waited for
            raise UserError(f"study must be a file, but {path} is none; choose another")
        try:
            self.study = optuna.create_study(storage=storage, study_name=STUDY, load_if_exists=True)
            known = self.study.user_attrs.get("fingerprint")
            if known is None:
                self.study.set_user_attr("fingerprint", fingerprint)
            trials = self.study.get_trials(deepcopy=False)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"study must be a file that this search can keep its trials in, but {path} is refused "
                f"({type(error).__name__}: {reason}); choose another"
            ) from error
        if known not in (None, fingerprint):
            raise UserError(
                f"study must belong to the same rows, settings and seed, but {path} is of another search; "
                "choose another file or delete it"
            )
        running = optuna.trial.TrialState.RUNNING
        self.check_trials(trials, path)
        for trial in trials:
            if trial.state == running:
                self.put_back(optuna.trial.Trial(self.study, trial._trial_id), "the process ended")
        if not trials:
            settings = vars(resolve_settings(self.base.preset, self.base.get_params(deep=False)))
            # Only the sampler reads these: the trial itself is the estimator as it is.
            defaults = {name: one.nearest(settings[name]) for name, one in self.space.items()}
            self.study.enqueue_trial(defaults, user_attrs={AS_GIVEN: True})

    def check_trials(self, trials: list[Any], path: str | Path | None) -> None:
        """Refuse trials that this search did not make: what they name is set on the estimator, and fitted."""
        known = {name: one.distribution() for name, one in self.space.items()}
        for trial in trials:
            strange = [name for name, one in trial.distributions.items() if known.get(name) != one]
            given = trial.params | (trial.system_attrs.get("fixed_params") or {})  # those that wait are fixed only
            strange += [name for name, value in given.items() if name not in known or not self.space[name].has(value)]
            if strange or not (trial.value is None or np.isfinite(trial.value)):
                what = f"sets {strange[0]!r}" if strange else f"has the score {trial.value}"
                raise UserError(
                    f"study must hold trials of this search, but trial {trial.number} of {path} {what}, which it never "
                    "does; choose another file or delete it"
                )

    def put_back(self, trial: Any, reason: str) -> None:
        """Put a trial that did not end in line again, then close it."""
        import optuna

        given = {AS_GIVEN: True} if trial.user_attrs.get(AS_GIVEN) else {}
        self.study.enqueue_trial(trial.params, user_attrs=given)
        trial.set_user_attr(CUT, reason)
        self.study.tell(trial, state=optuna.trial.TrialState.FAIL)

    def trials(self) -> list[Trial]:
        """All trials that are over, in their order."""
        import optuna

        found = []
        for trial in self.study.get_trials(deepcopy=False):
            if trial.state not in (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL):
                continue
            cut, error = trial.user_attrs.get(CUT), trial.user_attrs.get("error", "")
            state = FINISHED if trial.state == optuna.trial.TrialState.COMPLETE else CUT if cut else FAILED
            params = {} if trial.user_attrs.get(AS_GIVEN) else dict(trial.params)
            seconds = None if trial.duration is None else trial.duration.total_seconds()
            found.append(Trial(trial.number, params, state, trial.value, seconds, cut or error))
        return found

    def run(self, n_trials: int | None, time_limit: float | None, verbose: int) -> str:
        """Run trials until there are enough of them, or time is up, or Ctrl-C is pressed; says which."""
        end = None if time_limit is None else time.monotonic() + time_limit
        n_done = sum(trial.state != CUT for trial in self.trials())
        with tqdm(total=n_trials, initial=n_done, desc="tune", unit="trial", disable=None if verbose else True) as bar:
            try:
                while n_trials is None or n_done < n_trials:
                    if end is not None and time.monotonic() >= end:
                        return TIME_LIMIT
                    self.run_one(n_done, end)
                    n_done += 1
                    bar.update()
                    scores = [trial.score for trial in self.trials() if trial.score is not None]
                    bar.set_postfix({"best": f"{min(scores):.4g}"} if scores else {})
            except _CutShortError as reason:
                return str(reason)
            except KeyboardInterrupt:  # between trials, or while one is written: then it is taken up again
                return INTERRUPTED
        return FINISHED

    def run_one(self, n_done: int, end: float | None) -> None:
        """One trial: its settings depend on the seed and on those that ended before it."""
        import optuna

        # A sampler of its own for each trial: a continued search draws what an uninterrupted one would have.
        seed = (self.random_state * 1_000_003 + n_done) % 2**32
        self.study.sampler = optuna.samplers.TPESampler(seed=seed)
        trial = self.study.ask({name: one.distribution() for name, one in self.space.items()})
        is_given = bool(trial.user_attrs.get(AS_GIVEN))
        try:
            score = self.evaluate({} if is_given else trial.params, end)
        except (KeyboardInterrupt, _CutShortError) as stop:
            reason = str(stop) if isinstance(stop, _CutShortError) else INTERRUPTED
            self.put_back(trial, reason)
            raise _CutShortError(reason) from stop
        except Exception as error:  # settings that cannot be fitted are a result, too
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            if is_given:  # then nothing about the settings is wrong, and what is must be mended first
                self.put_back(trial, reason)
                raise
            trial.set_user_attr("error", reason)
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(trial, score)

    def evaluate(self, params: Mapping[str, Any], end: float | None) -> float:
        """Mean score of these settings over the held-back parts."""
        scores, sizes = [], []
        for fitted, held in self.parts:
            model = clone(self.base).set_params(**params, verbose=0)
            own = model.time_limit
            left = None if end is None else max(end - time.monotonic(), 1e-3)
            if left is not None and (own is None or left < own):
                model.set_params(time_limit=left)
            self.rows.fit(model, fitted)
            if model.history_.stopped == INTERRUPTED:
                raise _CutShortError(INTERRUPTED)
            is_over = model.history_.stopped == TIME_LIMIT or (end is not None and time.monotonic() >= end)
            if is_over and model.time_limit != own:
                raise _CutShortError(TIME_LIMIT)
            scores.append(self.rows.score(model, held))
            sizes.append(len(held))
        score = float(np.average(scores, weights=sizes))
        if not np.isfinite(score):
            raise FloatingPointError(f"the score became {score}")
        return score

    def result(self, stopped: str) -> Tuned:
        """The best of all trials that finished; there must be one."""
        trials = self.trials()
        finished = [(trial.score, trial.number, trial) for trial in trials if trial.score is not None]
        if not finished:
            raise UserError(
                f"a search must finish at least one trial, but it was stopped before ({stopped}); "
                "give it more time, or lower max_steps"
            )
        score, _, best = min(finished)
        default = next((trial.score for trial in trials if trial.score is not None and not trial.params), None)
        return Tuned(best.params, score, default, trials, stopped)


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Without Optuna's lines about every trial, for a while."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def _study_lock(path: str | Path | None) -> Iterator[None]:
    """Let one process at a time continue a study: it takes trials under way for those of a crash."""
    if path is None:
        yield
        return
    place = Path(path)
    lock = place.with_name(f"{place.name}.lock")
    try:
        lock.touch()
    except OSError as error:
        raise UserError(
            f"study must be a file in a folder that can be written, but got {place} ({error.strerror}); choose another"
        ) from error
    busy = f"study must be continued by one process at a time, but another one has {place}; wait for it"
    with alone(lock, busy):
        yield
