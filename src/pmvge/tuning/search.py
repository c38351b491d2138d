"""Better settings by trying some: Optuna on held-out links, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmvge.errors import DivergedError, InputError
from pmvge.graph import MultiViewGraph
from pmvge.model import PMvGE
from pmvge.tuning.space import defaults, fixed_names, plain, suggest
from pmvge.tuning.study import (
    check_fingerprint,
    check_trials,
    checked_journal,
    fingerprint_of,
    load_optuna,
    open_study,
    quiet,
)


@dataclass(frozen=True)
class Trial:
    """One fit: its number, what it tried, and the gain on held-out links (None: it diverged)."""

    number: int
    settings: Mapping[str, Any]
    gain: float | None
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """The best settings of all trials, and the gain that the defaults had."""

    settings: dict[str, Any]
    gain: float
    default_gain: float | None
    trials: int


def tune(
    graph: MultiViewGraph,
    held_out: MultiViewGraph,
    *,
    study: Path,
    trials: int = 20,
    minutes: float | None = None,
    fixed: Mapping[str, Any] | None = None,
    seed: int = 0,
    prepare: Callable[[dict[str, Any]], dict[str, Any]] = lambda settings: settings,
    told: Callable[[Trial], None] = lambda trial: None,
    noted: Callable[[str], None] = lambda note: None,
) -> Tuned:
    """Search dimension, network, dropout, rate, similarity and scheme on held-out links.

    Every trial is a fit to ``graph`` whose gain, the profile likelihood of the ``held_out`` links
    per unit of weight, is to be large; the first has the default settings. Trials are kept in the
    file ``study``: called again, the search goes on until there are ``trials`` of them, or for
    ``minutes``. ``fixed`` settings are not searched; ``prepare`` may complete those of a trial
    before they are given to the model; ``told`` hears of every trial, ``noted`` of a line that was
    half written when a search was killed, and is left out.
    """
    optuna = load_optuna()
    chosen = dict(fixed or {})
    with quiet(optuna):
        fingerprint = fingerprint_of(graph, held_out, chosen, seed)
        with checked_journal(study):
            search = open_study(optuna, study, seed, noted)
            check_trials(optuna, search, chosen)
            check_fingerprint(search, study, fingerprint)
        known = {
            name: value for name, value in defaults().items() if name not in fixed_names(chosen)
        }
        if not any(trial.state.is_finished() for trial in search.trials):
            with checked_journal(study):
                search.enqueue_trial(known)  # again, if it was interrupted
        end = time.monotonic() + 60 * minutes if minutes is not None else None
        done = sum(trial.state.is_finished() for trial in search.trials)
        while done < trials and (end is None or time.monotonic() < end or not done):
            with checked_journal(study):
                trial = search.ask()
                settings = suggest(trial, chosen)
            started = time.perf_counter()
            gain = _gain(graph, held_out, prepare({**chosen, **settings}), seed)
            failed = optuna.trial.TrialState.FAIL
            with checked_journal(study):
                trial.set_user_attr("settings", plain(settings))
                search.tell(trial, gain, state=failed if gain is None else None)
            told(Trial(done, settings, gain, time.perf_counter() - started))
            done += 1
        return _best(optuna, search, chosen, known)


def _gain(
    graph: MultiViewGraph, held_out: MultiViewGraph, settings: Mapping[str, Any], seed: int
) -> float | None:
    model = PMvGE(**{"random_state": seed, "progress": False, **settings})
    try:
        best = model.fit(graph, held_out).history_.best
    except DivergedError:
        return None
    if best is None or best.validation is None:
        raise InputError("tuning needs held-out links and patience: both are how trials are judged")
    return best.validation


def _best(optuna: Any, search: Any, fixed: Mapping[str, Any], usual: Mapping[str, Any]) -> Tuned:
    complete = search.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    if not complete:
        raise InputError("every trial diverged: standardise the features, or fix similarity=cosine")
    best = max(complete, key=lambda trial: (trial.value, -trial.number))
    default = next((trial.value for trial in complete if trial.params == usual), None)
    settings = {**fixed, **best.user_attrs["settings"]}
    return Tuned(settings, best.value, default, sum(t.state.is_finished() for t in search.trials))
