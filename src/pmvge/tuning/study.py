"""The file that keeps the trials of a search: an Optuna journal, checked before it is used."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pmvge.errors import InputError, PmvgeError, StorageError, one_line
from pmvge.graph import MultiViewGraph
from pmvge.training import add_graphs
from pmvge.tuning.space import plain, suggest

NAME = "pmvge"
LINE = b'{"op_code":'  # how Optuna begins every line of a journal
KINDS = range(32)  # of lines: Optuna has eleven, and may have more one day
LONGEST = 1 << 20  # bytes of a line
ANEW = "name another file by --study, or remove this one to start anew"


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
def checked_journal(path: Path) -> Iterator[None]:
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


def open_study(optuna: Any, path: Path, seed: int, noted: Callable[[str], None]) -> Any:
    """Open the study in a journal file, or create it."""
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


def check_fingerprint(search: Any, path: Path, fingerprint: str) -> None:
    """Raise StorageError if the trials were made with other data or settings."""
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


def check_trials(optuna: Any, search: Any, fixed: Mapping[str, Any]) -> None:
    """What is in the file must be what this search has put there."""
    if search.direction != optuna.study.StudyDirection.MAXIMIZE:
        raise ValueError("it is to make something small")
    for trial in search.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        settings = plain(suggest(optuna.trial.FixedTrial(trial.params), fixed))
        if settings != trial.user_attrs["settings"] or math.isnan(trial.value):
            raise ValueError(f"trial {trial.number} has other settings than it had, or no gain")


def fingerprint_of(
    graph: MultiViewGraph, held_out: MultiViewGraph, fixed: Mapping[str, Any], seed: int
) -> str:
    """Return a hash of the data and the fixed settings of a search."""
    digest = hashlib.sha256(repr([repr(graph), sorted(map(str, fixed.items())), seed]).encode())
    add_graphs(digest, graph, held_out)
    return digest.hexdigest()
