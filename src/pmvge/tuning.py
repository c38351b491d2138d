"""Better settings by trying some: Optuna on held-out links, resumable."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmvge.checkpoints import add_graphs
from pmvge.errors import DivergedError, InputError, StorageError
from pmvge.graph import MultiViewGraph
from pmvge.model import PMvGE

HIDDEN = {"128": (128,), "256": (256,), "512": (512,), "256-256": (256, 256)}
SEARCHED = (
    "n_components",
    "encoder",
    "hidden_sizes",
    "dropout",
    "learning_rate",
    "similarity",
    "scheme",
)
NAME = "pmvge"


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
) -> Tuned:
    """Search dimension, network, dropout, rate, similarity and scheme on held-out links.

    Every trial is a fit to ``graph`` whose gain, the profile likelihood of the ``held_out`` links
    per unit of weight, is to be large; the first has the default settings. Trials are kept in the
    file ``study``: called again, the search goes on until there are ``trials`` of them, or for
    ``minutes``. ``fixed`` settings are not searched; ``prepare`` may complete those of a trial
    before they are given to the model; ``told`` hears of every trial.
    """
    optuna = load_optuna()
    chosen = dict(fixed or {})
    with quiet(optuna):
        search = _open(optuna, study, _fingerprint(graph, held_out, chosen, seed), seed)
        known = {name: value for name, value in _defaults().items() if name not in _taken(chosen)}
        if not any(trial.state.is_finished() for trial in search.trials):
            search.enqueue_trial(known)  # again, if it was interrupted
        end = time.monotonic() + 60 * minutes if minutes is not None else None
        done = sum(trial.state.is_finished() for trial in search.trials)
        while done < trials and (end is None or time.monotonic() < end or not done):
            trial = search.ask()
            settings = _suggest(trial, chosen)
            started = time.perf_counter()
            gain = _gain(graph, held_out, prepare({**chosen, **settings}), seed)
            trial.set_user_attr("settings", {k: _plain(v) for k, v in settings.items()})
            failed = optuna.trial.TrialState.FAIL
            search.tell(trial, gain, state=failed if gain is None else None)
            told(Trial(done, settings, gain, time.perf_counter() - started))
            done += 1
        return _best(optuna, search, chosen, known)


def load_optuna() -> Any:
    """Optuna, or what to install."""
    try:
        import optuna
        import tomlkit  # noqa: F401  (needed when all trials are done: better to know now)
    except ImportError as error:
        raise InputError("tuning needs Optuna and tomlkit: pip install 'pmvge[tune]'") from error
    return optuna


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Optuna logs every trial, with its own words; ours are told to ``told``."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)


def _open(optuna: Any, path: Path, fingerprint: str, seed: int) -> Any:
    journal = optuna.storages.journal
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_journal(path)
        lock = journal.JournalFileOpenLock(str(path))
        storage = journal.JournalStorage(journal.JournalFileBackend(str(path), lock_obj=lock))
        done = len(optuna.get_all_study_names(storage=storage)) and optuna.load_study(
            study_name=NAME, storage=storage
        )
        # A sampler goes on from its seed and the trials there are, not from its own beginning.
        sampler = optuna.samplers.TPESampler(
            seed=(seed + (len(done.trials) if done else 0)) % 2**32
        )
        search = optuna.create_study(
            storage=storage,
            study_name=NAME,
            direction="maximize",
            load_if_exists=True,
            sampler=sampler,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path}: cannot be used as a study: {error}") from error
    before = search.user_attrs.get("fingerprint")
    if before not in (None, fingerprint):
        raise StorageError(
            f"{path}: these trials were made with other data or other settings; remove the file, "
            "or name another by --study"
        )
    search.set_user_attr("fingerprint", fingerprint)
    return search


def _check_journal(path: Path) -> None:
    """Optuna adds its lines to any file: one that is something else must not come to that."""
    if path.exists():
        with path.open("rb") as stream:
            first = stream.readline(1 << 16)
        if first and "op_code" not in json.loads(first):
            raise ValueError("it is something else")


def _fingerprint(
    graph: MultiViewGraph, held_out: MultiViewGraph, fixed: Mapping[str, Any], seed: int
) -> str:
    digest = hashlib.sha256(repr([repr(graph), sorted(map(str, fixed.items())), seed]).encode())
    add_graphs(digest, graph, held_out)
    return digest.hexdigest()


# -- what is searched -----------------------------------------------------------------------------


def _defaults() -> dict[str, Any]:
    """The default settings as a point of the space that is searched."""
    usual = PMvGE().get_params(deep=False)
    sizes = {sizes: name for name, sizes in HIDDEN.items()}
    return {
        "n_components": usual["n_components"],
        "network": sizes[usual["hidden_sizes"]],
        "dropout": usual["dropout"],
        "learning_rate": usual["learning_rate"],
        "similarity": usual["similarity"],
        "scheme": usual["scheme"],
    }


def _taken(fixed: Mapping[str, Any]) -> set[str]:
    network = {"network"} if {"encoder", "hidden_sizes"} & set(fixed) else set()
    return set(fixed) | network


def _suggest(trial: Any, fixed: Mapping[str, Any]) -> dict[str, Any]:
    taken = _taken(fixed)
    settings: dict[str, Any] = {}
    if "n_components" not in taken:
        settings["n_components"] = trial.suggest_int("n_components", 8, 256, log=True)
    if "network" not in taken:
        network = trial.suggest_categorical("network", ["linear", *HIDDEN])
        settings |= (
            {"encoder": "linear"}
            if network == "linear"
            else {
                "encoder": "mlp",
                "hidden_sizes": HIDDEN[network],
            }
        )
    if "dropout" not in taken:
        settings["dropout"] = round(trial.suggest_float("dropout", 0.0, 0.7), 3)
    if "learning_rate" not in taken:
        rate = trial.suggest_float("learning_rate", 3e-4, 2e-2, log=True)
        settings["learning_rate"] = float(f"{rate:.3g}")
    if "similarity" not in taken:
        settings["similarity"] = trial.suggest_categorical("similarity", ["cosine", "inner"])
    if "scheme" not in taken:
        settings["scheme"] = trial.suggest_categorical("scheme", ["block", "paper"])
    return settings


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


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
