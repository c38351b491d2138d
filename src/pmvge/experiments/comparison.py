"""Comparison of methods on repeated splits, with settings chosen on the validation parts."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import DivergedError
from pmvge.experiments.base import Experiment, Job, Result, Summary, Table
from pmvge.experiments.recipe import Entry
from pmvge.experiments.result_cache import Arrays, cached
from pmvge.tuning import load_optuna, quiet

Array = NDArray[Any]
Part = Literal["validation", "test"]
MAX_DRAWS = 20  # draws of the sampler per trial: it may repeat settings, or all are tried


@dataclass(frozen=True)
class Metric:
    """A metric between 0 and 1, shown in percent; higher is better."""

    name: str
    label: str


class Score(NamedTuple):
    """The metrics of a method by name, the seconds of its fit, and values for its result file."""

    metrics: dict[str, float]
    seconds: float
    details: Mapping[str, Any] = {}


class Comparison(Experiment):
    """An experiment with one job for each method and repetition."""

    metrics: ClassVar[tuple[Metric, ...]]

    @abstractmethod
    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the metrics of a method with given settings on one part of a split.

        With ``part="validation"`` no label of the test part may be used, nor any other data that
        the final fit may not use.
        """

    def jobs(self) -> list[Job]:
        """Return the jobs by repetition, so that all methods have results early."""
        return [
            Job(entry.label, str(repetition))
            for repetition in range(self.recipe.repetitions)
            for entry in self.recipe.methods
        ]

    def fingerprint(self, job: Job) -> str:
        """Return the fingerprint, which depends on the settings of the job's own method only."""
        entry = self.recipe.entry(job.row)
        tuned = self.recipe.tuned.get(entry.label, [])[int(job.column) : int(job.column) + 1]
        searched = [] if tuned else [entry.search, self.recipe.trials]
        own = (entry.method, entry.settings, tuned, searched)
        return self.recipe.fingerprint(*self.identity, *own)

    def is_result(self, result: Any) -> bool:
        """Return whether a stored result has scores, settings and seconds."""
        needed = {"scores", "settings", "seconds"}
        return isinstance(result, dict) and needed <= set(result)

    def run(self, job: Job) -> Result:
        """Return the scores of one fit with chosen settings; if training diverges, the reason."""
        entry, repetition = self.recipe.entry(job.row), int(job.column)
        chosen: dict[str, Any] = {}
        tried: list[Any] = []
        started = time.perf_counter()
        try:
            chosen, tried = self.choose(entry, repetition)
            started = time.perf_counter()
            scores, seconds, details = self.score(entry, chosen, repetition, "test")
        except DivergedError as error:
            reason = {"settings": chosen, "trials": tried, "diverged": str(error)}
            return {"scores": None, "seconds": time.perf_counter() - started, **reason}
        found = {"scores": scores, "settings": chosen, "trials": tried, "seconds": seconds}
        return {**found, **details}

    # -- fits -------------------------------------------------------------------------------

    def fit_seed(self, setting: str, repetition: int, part: Part) -> int:
        """Return the seed of a fit: one for each split in (B), a few shared ones in (A)."""
        number = repetition
        if setting == "A":
            number = 0 if part == "validation" else repetition % self.settings["fits"]
        return int(np.random.default_rng([self.recipe.seed, number, 1]).integers(2**31))

    def cached_fit(self, key: Any, fit: Callable[[], Arrays]) -> tuple[Arrays, float]:
        """Return the arrays of a fit and its seconds, from the workspace if they are stored."""
        folder = None if self.workspace is None else self.workspace / "fits"
        return cached(folder, [self.recipe.fingerprint(*self.identity), key], fit)

    # -- settings ---------------------------------------------------------------------------

    def choose(self, entry: Entry, repetition: int) -> tuple[dict[str, Any], list[Any]]:
        """Return the settings to use, and the trials: [settings, validation score]."""
        fixed = dict(entry.settings)
        tuned = self.recipe.tuned.get(entry.label, [])
        if not entry.search:
            return fixed, []
        if repetition < len(tuned):
            return {**fixed, **tuned[repetition]}, []
        return self.tune(entry, repetition)

    def tune(self, entry: Entry, repetition: int) -> tuple[dict[str, Any], list[Any]]:
        """Return the best settings on the validation part, and all trials, which differ.

        The first trial has the first value of each list. There are fewer trials than the recipe
        wants if the lists have not as many combinations.

        Raise DivergedError if training diverges in all trials.
        """
        optuna = load_optuna()
        with quiet(optuna):
            study = self._study(optuna, entry, repetition)
            if not any(trial.state.is_finished() for trial in study.trials):
                study.enqueue_trial({k: json.dumps(v[0]) for k, v in entry.search.items()})
            scores = {  # by settings: the sampler repeats some, which are fitted once
                json.dumps(t.user_attrs["settings"], sort_keys=True): t.value
                for t in study.trials
                if t.state.is_finished()
            }
            for _ in range(MAX_DRAWS * self.recipe.trials):
                if len(scores) >= self.recipe.trials:
                    break
                trial = study.ask()
                settings = {
                    key: json.loads(trial.suggest_categorical(key, [json.dumps(v) for v in values]))
                    for key, values in entry.search.items()
                }
                key = json.dumps(settings, sort_keys=True)
                if key not in scores:
                    both = {**entry.settings, **settings}
                    scores[key] = self._validation_score(entry, both, repetition)
                trial.set_user_attr("settings", settings)
                failed = optuna.trial.TrialState.FAIL if scores[key] is None else None
                study.tell(trial, scores[key], state=failed)
        tried = [[json.loads(key), value] for key, value in scores.items() if value is not None]
        if not tried:
            raise DivergedError(
                f"{entry.label}: training diverged with all settings tried; use smaller "
                "learning rates in the recipe"
            )
        best = max(tried, key=lambda pair: pair[1])[0]
        return {**entry.settings, **best}, tried

    def _study(self, optuna: Any, entry: Entry, repetition: int) -> Any:
        """Return a study, which resumes from the workspace if there is one."""
        storage = None
        if self.workspace is not None:
            self.workspace.mkdir(parents=True, exist_ok=True)
            # The number of trials is not part of it: a study continues if there are more.
            own = (entry.method, entry.settings, entry.search)
            fingerprint = self.recipe.fingerprint(*self.identity, *own)
            file = self.workspace / f"{entry.label}-{repetition}-{fingerprint}.log".replace(
                "/", "-"
            )
            journal = optuna.storages.journal
            storage = journal.JournalStorage(journal.JournalFileBackend(str(file)))
        study = optuna.create_study(
            storage=storage, study_name="settings", load_if_exists=True, direction="maximize"
        )
        # As in tuning: a resumed sampler must not repeat the draws of its first run.
        seed = np.random.SeedSequence([self.recipe.seed, repetition, len(study.trials)])
        study.sampler = optuna.samplers.TPESampler(seed=int(seed.generate_state(1)[0]))
        return study

    def _validation_score(
        self, entry: Entry, settings: dict[str, Any], repetition: int
    ) -> float | None:
        """Return the mean of all metrics, which a search maximises; None if training diverges."""
        try:
            score = self.score(entry, settings, repetition, "validation")
        except DivergedError:
            return None
        return float(np.mean(list(score.metrics.values())))

    def chosen_settings(self, results: Mapping[Job, Result]) -> dict[str, list[dict[str, Any]]]:
        """Return the settings found by searches, for a recipe's ``tuned.json``.

        Methods with missing repetitions are left out.
        """
        tuned = {}
        for entry in self.recipe.methods:
            rows = [results.get(Job(entry.label, str(r))) for r in range(self.recipe.repetitions)]
            complete = [row["settings"] for row in rows if row is not None and row["settings"]]
            if entry.search and len(complete) == len(rows):
                tuned[entry.label] = [{key: row[key] for key in entry.search} for row in complete]
        return tuned

    # -- tables -----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return a table with mean and deviation of every metric, beside the paper's."""
        columns, in_paper = ["method"], []
        for metric in self.metrics:
            columns.append(metric.label)
            printed = any(metric.name in entry.paper for entry in self.recipe.methods)
            if printed and not self.recipe.simulated:
                columns.append("paper")
                in_paper.append(metric)
        columns += ["seconds per fit"]
        rows = []
        for entry in self.recipe.methods:
            method_results = [result for job, result in results.items() if job.row == entry.label]
            row = [entry.label]
            for metric in self.metrics:
                row.append(spread([percent(result, metric) for result in method_results]))
                if metric in in_paper:
                    paper = entry.paper.get(metric.name)
                    row.append(f"{paper[0]:#.3g} ± {paper[1]:.2f}" if paper else "")
            row.append(
                f"{np.median([r['seconds'] for r in method_results]):.1f}" if method_results else ""
            )
            rows.append(row)
        done = min(
            (sum(job.row == e.label for job in results) for e in self.recipe.methods), default=0
        )
        caption = f"{self.recipe.title}: mean ± standard deviation over {done} splits, in percent"
        return Summary(tables=[Table(caption, columns, rows)])

    def values(self, results: Mapping[Job, Result], label: str, metric: Metric) -> list[float]:
        """Return a metric of a method in percent, by repetition; NaN if training diverged."""
        return [percent(result, metric) for job, result in results.items() if job.row == label]


class SearchedOnce(Comparison):
    """A comparison whose searches use splits that are not reported.

    Settings do not depend on the repetition: those of repetition 0 are used for all.
    """

    def choose(self, entry: Entry, repetition: int) -> tuple[dict[str, Any], list[Any]]:
        """Return the settings to use, the same for all repetitions, and the trials."""
        return super().choose(entry, 0)

    def fingerprint(self, job: Job) -> str:
        """Return the fingerprint, which depends on the settings of the job's own method only."""
        return super().fingerprint(Job(job.row, "0"))

    def chosen_settings(self, results: Mapping[Job, Result]) -> dict[str, list[dict[str, Any]]]:
        """Return the settings found by searches, once for each row of jobs."""
        return {label: rows[:1] for label, rows in super().chosen_settings(results).items()}


def unit(Y: Array) -> Array:
    """Return rows scaled to length 1; rows of zeros stay zero."""
    return np.asarray(Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12))


def percent(result: Result, metric: Metric) -> float:
    """Return a metric of a job in percent; NaN if training diverged."""
    scores = result["scores"]
    return float("nan") if scores is None else 100 * float(scores[metric.name])


def spread(values: list[float]) -> str:
    """Return mean and standard deviation as text, and the number of NaN as diverged."""
    numbers = [value for value in values if not np.isnan(value)]
    diverged = f"{len(values) - len(numbers)} diverged" if len(numbers) < len(values) else ""
    if not numbers:
        return diverged
    deviation = f" ± {np.std(numbers, ddof=1):.1f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):.1f}{deviation}" + (f" ({diverged})" if diverged else "")
