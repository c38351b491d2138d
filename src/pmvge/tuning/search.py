"""Search for settings with Optuna. A search can be interrupted and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmvge.encoders import EFFECTS
from pmvge.errors import DivergedError, InputError, ParameterError, choose
from pmvge.graph import MultiViewGraph
from pmvge.likelihoods import build_family, check_family
from pmvge.model import PMvGE
from pmvge.tuning.space import as_json, defaults, fixed_names, suggest
from pmvge.tuning.study import (
    check_fingerprint,
    check_trials,
    fingerprint_of,
    journal_errors,
    load_optuna,
    open_study,
    quiet,
)


@dataclass(frozen=True)
class Trial:
    """One fit: its number, settings and gain on held-out links (None if it diverged)."""

    number: int
    settings: Mapping[str, Any]
    gain: float | None
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """The best settings of all trials, their gain, and the gain of the default settings."""

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
    families: Sequence[str] = (),
    effects: Sequence[str] = (),
    seed: int = 0,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Tuned:
    """Search for the best dimension, network, dropout, learning rate, similarity and scheme.

    Each trial is a fit to ``graph``. Its gain, which is maximised, is the profile likelihood of the
    ``held_out`` links per unit of weight. Such gains of two families cannot be compared, so if
    ``families`` or ``effects`` are searched, too, the gain is the ``held_out_score`` of
    :meth:`PMvGE.evaluate <pmvge.PMvGE.evaluate>`. The first trial has the default settings. Trials
    are stored in the file ``study``; another call resumes the search.

    Parameters
    ----------
    graph, held_out
        Training links, and the links that trials are evaluated on.
    study
        File that stores the trials.
    trials
        Total number of trials, including those of earlier calls.
    minutes
        Time limit of this call; None for no limit. An empty study gets at least one trial.
    fixed
        Settings that are not searched.
    families, effects
        Names of families and kinds of effects to choose from; by default neither is searched. With
        families, the scheme is "block".
    seed
        Seed of the search and of the fits.
    on_trial
        Called with every finished trial.
    on_note
        Called with a message if the last line of ``study`` was incomplete and has been removed.

    Raises
    ------
    StorageError
        If ``study`` is damaged, no study, or was made with other data or settings.
    InputError
        If every trial diverged, or nothing is held out.
    ParameterError, GraphError
        If a family has no likelihood or cannot have the weights.
    """
    optuna = load_optuna()
    chosen, choices = dict(fixed or {}), _check_choices(families, effects, graph, held_out)
    if "family" in choices:
        chosen["scheme"] = "block"
    with quiet(optuna):
        fingerprint = fingerprint_of(graph, held_out, {**chosen, **choices}, seed)
        with journal_errors(study):
            search = open_study(optuna, study, seed, on_note)
            check_trials(optuna, search, chosen, choices)
            check_fingerprint(search, study, fingerprint)
        first = {
            name: value
            for name, value in defaults(choices).items()
            if name not in fixed_names(chosen)
        }
        if not any(trial.state.is_finished() for trial in search.trials):
            with journal_errors(study):
                search.enqueue_trial(first)  # repeated if the first trial was interrupted
        end = time.monotonic() + 60 * minutes if minutes is not None else None
        done = sum(trial.state.is_finished() for trial in search.trials)
        while done < trials and (end is None or time.monotonic() < end or not done):
            with journal_errors(study):
                trial = search.ask()
                settings = suggest(trial, chosen, choices)
            started = time.perf_counter()
            measure = _held_out_score if choices else _gain
            gain = measure(graph, held_out, {**chosen, **settings}, seed)
            failed = optuna.trial.TrialState.FAIL
            with journal_errors(study):
                trial.set_user_attr("settings", as_json(settings))
                search.tell(trial, gain, state=failed if gain is None else None)
            on_trial(Trial(done, settings, gain, time.perf_counter() - started))
            done += 1
        return _best(optuna, search, chosen, first)


def _check_choices(
    families: Sequence[str], effects: Sequence[str], graph: MultiViewGraph, held_out: MultiViewGraph
) -> dict[str, Sequence[str]]:
    """Return what is searched beyond the usual settings; raise if a family cannot be compared."""
    for name in families:
        family = build_family(name, tuple(graph.links))
        if not family.is_likelihood:
            raise ParameterError(
                f"families: expected families with a likelihood, got {name!r}, whose held-out "
                "score does not exist"
            )
        check_family(family, graph, held_out)
    for kind in effects:
        choose("effects", kind, EFFECTS, "effects")
    searched = {"family": tuple(families), "effects": tuple(effects)}
    return {name: options for name, options in searched.items() if options}


def _fit(
    graph: MultiViewGraph, held_out: MultiViewGraph, settings: Mapping[str, Any], seed: int
) -> PMvGE | None:
    """Return the model of a trial; None if it diverged."""
    model = PMvGE(**{"random_state": seed, "progress": False, **settings})
    try:
        return model.fit(graph, held_out)
    except DivergedError:
        return None


def _held_out_score(
    graph: MultiViewGraph, held_out: MultiViewGraph, settings: Mapping[str, Any], seed: int
) -> float | None:
    model = _fit(graph, held_out, settings, seed)
    return None if model is None else float(model.evaluate()["overall"]["held_out_score"])


def _gain(
    graph: MultiViewGraph, held_out: MultiViewGraph, settings: Mapping[str, Any], seed: int
) -> float | None:
    model = _fit(graph, held_out, settings, seed)
    if model is None:
        return None
    kept = model.history_.kept
    if kept is None or kept.validation is None:
        raise InputError(
            "tuning needs held-out links and patience: trials are evaluated on held-out links; "
            "set patience to an integer >= 1"
        )
    return kept.validation


def _best(optuna: Any, search: Any, fixed: Mapping[str, Any], first: Mapping[str, Any]) -> Tuned:
    complete = search.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    if not complete:
        raise InputError("every trial diverged: standardise the features, or fix similarity=cosine")
    best = max(complete, key=lambda trial: (trial.value, -trial.number))
    default = next((trial.value for trial in complete if trial.params == first), None)
    settings = {**fixed, **best.user_attrs["settings"]}
    return Tuned(settings, best.value, default, sum(t.state.is_finished() for t in search.trials))
