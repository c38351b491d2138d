"""Methods compared on repeated splits, each with settings chosen on the validation part alone."""

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
from pmvge.experiments.kept import Arrays, kept
from pmvge.experiments.recipe import Entry
from pmvge.tuning import load_optuna, quiet

Array = NDArray[Any]
Part = Literal["validation", "test"]


@dataclass(frozen=True)
class Metric:
    """A score between 0 and 1, shown in percent; higher is better."""

    name: str
    label: str


class Score(NamedTuple):
    """How good a method was, by the names of metrics, and how long its fit took."""

    metrics: dict[str, float]
    seconds: float


class Comparison(Experiment):
    """Jobs are methods times repetitions."""

    metrics: ClassVar[tuple[Metric, ...]]

    @abstractmethod
    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """The metrics of a method with some settings on one part of one split.

        With ``part="validation"`` nothing of the test part may be looked at that the final fit may
        not see either, and no label of it at all.
        """

    def jobs(self) -> list[Job]:
        """Repetition after repetition, so that means over the first ones are there early."""
        return [
            Job(entry.label, str(repetition))
            for repetition in range(self.recipe.repetitions)
            for entry in self.recipe.methods
        ]

    def fingerprint(self, job: Job) -> str:
        """A row depends on its own settings, not on what else is compared."""
        entry = self.recipe.entry(job.row)
        tuned = self.recipe.tuned.get(entry.label, [])[int(job.column) : int(job.column) + 1]
        searched = [] if tuned else [entry.search, self.recipe.trials]
        own = (entry.method, entry.settings, tuned, searched)
        return self.recipe.fingerprint(*self.identity, *own)

    def is_result(self, result: Any) -> bool:
        """With scores, settings and seconds."""
        known = {"scores", "settings", "seconds"}
        return isinstance(result, dict) and known <= set(result)

    def run(self, job: Job) -> Result:
        """Choose settings, then fit and score once; what diverges has no scores, but a reason."""
        entry, repetition = self.recipe.entry(job.row), int(job.column)
        chosen: dict[str, Any] = {}
        tried: list[Any] = []
        started = time.perf_counter()
        try:
            chosen, tried = self.choose(entry, repetition)
            started = time.perf_counter()
            scores, seconds = self.score(entry, chosen, repetition, "test")
        except DivergedError as error:
            told = {"settings": chosen, "trials": tried, "diverged": str(error)}
            return {"scores": None, "seconds": time.perf_counter() - started, **told}
        return {"scores": scores, "settings": chosen, "trials": tried, "seconds": seconds}

    # -- fits -------------------------------------------------------------------------------

    def fit_seed(self, setting: str, repetition: int, part: Part) -> int:
        """In (B) each split has a fit of its own, in (A) some fits serve all of them."""
        number = repetition
        if setting == "A":
            number = 0 if part == "validation" else repetition % self.settings["fits"]
        return int(np.random.default_rng([self.recipe.seed, number, 1]).integers(2**31))

    def kept(self, of: Any, make: Callable[[], Arrays]) -> tuple[Arrays, float]:
        """A fit and its seconds; from the workspace if one ``of`` the same has been made."""
        folder = None if self.workspace is None else self.workspace / "fits"
        return kept(folder, [self.recipe.fingerprint(*self.identity), of], make)

    # -- settings ---------------------------------------------------------------------------

    def choose(self, entry: Entry, repetition: int) -> tuple[dict[str, Any], list[Any]]:
        """The settings to use, and what was tried to find them: (settings, validation score)."""
        fixed = dict(entry.settings)
        known = self.recipe.tuned.get(entry.label, [])
        if not entry.search:
            return fixed, []
        if repetition < len(known):
            return {**fixed, **known[repetition]}, []
        return self.tune(entry, repetition)

    def tune(self, entry: Entry, repetition: int) -> tuple[dict[str, Any], list[Any]]:
        """Try settings on the validation part; the recipe's own come first."""
        optuna = load_optuna()
        with quiet(optuna):
            study = self._study(optuna, entry, repetition)
            if not any(trial.state.is_finished() for trial in study.trials):
                study.enqueue_trial({k: json.dumps(v[0]) for k, v in entry.search.items()})
            known: dict[str, float | None] = {}
            while sum(t.state.is_finished() for t in study.trials) < self.recipe.trials:
                trial = study.ask()
                settings = {
                    key: json.loads(trial.suggest_categorical(key, [json.dumps(v) for v in values]))
                    for key, values in entry.search.items()
                }
                key = json.dumps(settings, sort_keys=True)
                if key not in known:  # a sampler may ask twice
                    known[key] = self._gain(entry, {**entry.settings, **settings}, repetition)
                trial.set_user_attr("settings", settings)
                failed = optuna.trial.TrialState.FAIL if known[key] is None else None
                study.tell(trial, known[key], state=failed)
            tried = [
                [t.user_attrs["settings"], t.value] for t in study.trials if t.value is not None
            ]
        if not tried:
            raise DivergedError(f"{entry.label}: training diverged with all settings tried")
        best = max(tried, key=lambda pair: pair[1])[0]
        return {**entry.settings, **best}, tried

    def _study(self, optuna: Any, entry: Entry, repetition: int) -> Any:
        """A study that is kept in the workspace, if there is one, and goes on where it stopped."""
        storage = None
        if self.workspace is not None:
            self.workspace.mkdir(parents=True, exist_ok=True)
            # Not the number of trials: a study goes on when more are wanted.
            own = (entry.method, entry.settings, entry.search)
            known = self.recipe.fingerprint(*self.identity, *own)
            file = self.workspace / f"{entry.label}-{repetition}-{known}.log".replace("/", "-")
            journal = optuna.storages.journal
            storage = journal.JournalStorage(journal.JournalFileBackend(str(file)))
        study = optuna.create_study(
            storage=storage, study_name="settings", load_if_exists=True, direction="maximize"
        )
        # As in tuning: a sampler that goes on does not begin from its seed again.
        seed = np.random.SeedSequence([self.recipe.seed, repetition, len(study.trials)])
        study.sampler = optuna.samplers.TPESampler(seed=int(seed.generate_state(1)[0]))
        return study

    def _gain(self, entry: Entry, settings: dict[str, Any], repetition: int) -> float | None:
        """What a search maximises; None if training diverges."""
        try:
            score = self.score(entry, settings, repetition, "validation")
        except DivergedError:
            return None
        return float(np.mean(list(score.metrics.values())))

    def found(self, results: Mapping[Job, Result]) -> dict[str, list[dict[str, Any]]]:
        """The settings that were chosen, for a recipe's ``tuned.json``; of complete rows only."""
        tuned = {}
        for entry in self.recipe.methods:
            rows = [results.get(Job(entry.label, str(r))) for r in range(self.recipe.repetitions)]
            complete = [row["settings"] for row in rows if row is not None and row["settings"]]
            if entry.search and len(complete) == len(rows):
                tuned[entry.label] = [{key: row[key] for key in entry.search} for row in complete]
        return tuned

    # -- tables -----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Mean and deviation of every metric, beside the paper's."""
        columns, beside = ["method"], []  # metrics that the paper has numbers of
        for metric in self.metrics:
            columns.append(metric.label)
            printed = any(metric.name in entry.paper for entry in self.recipe.methods)
            if printed and not self.recipe.simulated:
                columns.append("paper")
                beside.append(metric)
        columns += ["seconds a fit"]
        rows = []
        for entry in self.recipe.methods:
            mine = [result for job, result in results.items() if job.row == entry.label]
            row = [entry.label]
            for metric in self.metrics:
                row.append(spread([percent(result, metric) for result in mine]))
                if metric in beside:
                    paper = entry.paper.get(metric.name)
                    row.append(f"{paper[0]:#.3g} ± {paper[1]:.2f}" if paper else "")
            row.append(f"{np.median([r['seconds'] for r in mine]):.1f}" if mine else "")
            rows.append(row)
        done = min(
            (sum(job.row == e.label for job in results) for e in self.recipe.methods), default=0
        )
        caption = f"{self.recipe.title}: mean ± standard deviation over {done} splits, in percent"
        return Summary(tables=[Table(caption, columns, rows)])

    def values(self, results: Mapping[Job, Result], label: str, metric: Metric) -> list[float]:
        """Of a method in its repetitions, in percent; NaN where it diverged."""
        return [percent(result, metric) for job, result in results.items() if job.row == label]


def unit(Y: Array) -> Array:
    """Rows of length 1; a row of zeros stays one."""
    return np.asarray(Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12))


def percent(result: Result, metric: Metric) -> float:
    """A score of a job, NaN if it diverged."""
    scores = result["scores"]
    return float("nan") if scores is None else 100 * float(scores[metric.name])


def spread(values: list[float]) -> str:
    """Mean and standard deviation of those that are numbers, and how many are not."""
    numbers = [value for value in values if not np.isnan(value)]
    lost = f"{len(values) - len(numbers)} diverged" if len(numbers) < len(values) else ""
    if not numbers:
        return lost
    deviation = f" ± {np.std(numbers, ddof=1):.1f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):.1f}{deviation}" + (f" ({lost})" if lost else "")
