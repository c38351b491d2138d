"""Better settings by trying some: Optuna on held-out links, resumable."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmvge.checkpoints import add_graphs
from pmvge.errors import DivergedError, InputError, PmvgeError, StorageError, one_line
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
LINE = b'{"op_code":'  # how Optuna begins every line of a journal
KINDS = range(32)  # of lines: Optuna has eleven, and may have more one day
LONGEST = 1 << 20  # bytes of a line
ANEW = "name another file by --study, or remove this one to start anew"


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
        fingerprint = _fingerprint(graph, held_out, chosen, seed)
        with _journal(study):
            search = _open(optuna, study, seed, noted)
            _check_trials(optuna, search, chosen)
            _check_fingerprint(search, study, fingerprint)
        known = {name: value for name, value in _defaults().items() if name not in _taken(chosen)}
        if not any(trial.state.is_finished() for trial in search.trials):
            with _journal(study):
                search.enqueue_trial(known)  # again, if it was interrupted
        end = time.monotonic() + 60 * minutes if minutes is not None else None
        done = sum(trial.state.is_finished() for trial in search.trials)
        while done < trials and (end is None or time.monotonic() < end or not done):
            with _journal(study):
                trial = search.ask()
                settings = _suggest(trial, chosen)
            started = time.perf_counter()
            gain = _gain(graph, held_out, prepare({**chosen, **settings}), seed)
            failed = optuna.trial.TrialState.FAIL
            with _journal(study):
                trial.set_user_attr("settings", _plain(settings))
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


@contextmanager
def _journal(path: Path) -> Iterator[None]:
    """Optuna believes what it reads: a damaged line may become any error, now or later."""
    try:
        yield
    except PmvgeError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be used as a study: {error}") from error
    except Exception as error:
        what = f"{type(error).__name__}: {one_line(error)}"
        raise StorageError(
            f"{path}: cannot be used as a study: it is damaged ({what}); {ANEW}"
        ) from error


def _open(optuna: Any, path: Path, seed: int, noted: Callable[[str], None]) -> Any:
    journal = optuna.storages.journal
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = journal.JournalFileOpenLock(str(path))
    if path.exists():
        _mend(path, lock, noted)
    storage = journal.JournalStorage(journal.JournalFileBackend(str(path), lock_obj=lock))
    study = {"study_name": NAME, "storage": storage}
    known = bool(optuna.get_all_study_names(storage=storage))
    done = len(optuna.load_study(**study).trials) if known else 0
    # A sampler goes on from its seed and the trials there are, not from its own beginning.
    sampler = optuna.samplers.TPESampler(seed=(seed + done) % 2**32)
    if known:
        return optuna.load_study(**study, sampler=sampler)
    return optuna.create_study(**study, sampler=sampler, direction="maximize", load_if_exists=True)


def _check_fingerprint(search: Any, path: Path, fingerprint: str) -> None:
    before = search.user_attrs.get("fingerprint")
    if before is None and not search.trials:
        search.set_user_attr("fingerprint", fingerprint)
    elif before != fingerprint:
        raise StorageError(
            f"{path}: these trials were made with other data or other settings; remove the file, "
            "or name another by --study"
        )


def _mend(path: Path, lock: Any, noted: Callable[[str], None]) -> None:
    """Cut off a last line without an end: Optuna would write the next one behind it."""
    lock.acquire()  # or the line is one that another process is writing
    try:
        end = _whole_lines(path)
        if end < path.stat().st_size:
            with path.open("rb+") as stream:
                stream.truncate(end)
            noted(f"{path}: its last line was half written, and is left out")
    finally:
        lock.release()


def _whole_lines(path: Path) -> int:
    """The bytes of all lines that have an end, each of which must be one of Optuna's.

    Optuna adds its lines to any file: one that is something else must not come to that.
    """
    end = 0
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST), b""), start=1):
            half = not line.endswith(b"\n")
            if half and len(line) < LONGEST and (end or line[: len(LINE)] == LINE[: len(line)]):
                break
            if half or not _is_entry(line):
                raise StorageError(
                    f"{path}: cannot be used as a study: line {number} is damaged, or none of "
                    f"Optuna's; {ANEW}"
                )
            end += len(line)
    return end


def _is_entry(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    known = isinstance(entry, dict) and entry.get("op_code") in KINDS
    return known and isinstance(entry.get("worker_id"), str)


def _check_trials(optuna: Any, search: Any, fixed: Mapping[str, Any]) -> None:
    """What is in the file must be what this search has put there."""
    if search.direction != optuna.study.StudyDirection.MAXIMIZE:
        raise ValueError("it is to make something small")
    for trial in search.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        settings = _plain(_suggest(optuna.trial.FixedTrial(trial.params), fixed))
        if settings != trial.user_attrs["settings"] or math.isnan(trial.value):
            raise ValueError(f"trial {trial.number} has other settings than it had, or no gain")


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


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
