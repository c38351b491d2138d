"""The file that stores the trials of a search: an Optuna journal, checked before it is used."""

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
from pmvge.training import hash_graphs
from pmvge.tuning.space import Choices, as_json, suggest

NAME = "pmvge"
LINE_START = b'{"op_code":'  # of every line that Optuna writes to a journal
OP_CODES = range(32)  # Optuna 5 uses eleven; later versions may add some
MAX_LINE = 1 << 20  # bytes
FIX = "name another file with --study, or remove this one"


def load_optuna() -> Any:
    """Import and return Optuna; raise InputError with the command to install it."""
    try:
        import optuna
        import tomlkit  # noqa: F401  (needed after the last trial: fail early)
    except ImportError as error:
        raise InputError("tuning needs Optuna and tomlkit: pip install 'pmvge[tune]'") from error
    return optuna


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Silence Optuna's log messages while the context is active."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)


@contextmanager
def journal_errors(path: Path) -> Iterator[None]:
    """Raise any exception of Optuna as StorageError: a damaged journal can cause any of them."""
    try:
        yield
    except PmvgeError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be used as a study: {error}") from error
    except Exception as error:
        cause = f"{type(error).__name__}: {one_line(error)}"
        raise StorageError(
            f"{path}: cannot be used as a study: it is damaged ({cause}); {FIX}"
        ) from error


def open_study(optuna: Any, path: Path, seed: int, on_note: Callable[[str], None]) -> Any:
    """Open the study in a journal file, or create it.

    ``on_note`` is called with a message if the last line was incomplete and has been removed. Raise
    StorageError if the file is not a journal.
    """
    journal = optuna.storages.journal
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = journal.JournalFileOpenLock(str(path))
    if path.exists():
        _remove_incomplete_line(path, lock, on_note)
    storage = journal.JournalStorage(journal.JournalFileBackend(str(path), lock_obj=lock))
    study = {"study_name": NAME, "storage": storage}
    exists = bool(optuna.get_all_study_names(storage=storage))
    done = len(optuna.load_study(**study).trials) if exists else 0
    # With the same seed, a resumed sampler would draw the first trials' random numbers again.
    sampler = optuna.samplers.TPESampler(seed=(seed + done) % 2**32)
    if exists:
        return optuna.load_study(**study, sampler=sampler)
    return optuna.create_study(**study, sampler=sampler, direction="maximize", load_if_exists=True)


def check_fingerprint(search: Any, path: Path, fingerprint: str) -> None:
    """Store the fingerprint in a new study; raise StorageError if an old one has another."""
    before = search.user_attrs.get("fingerprint")
    if before is None and not search.trials:
        search.set_user_attr("fingerprint", fingerprint)
    elif before != fingerprint:
        raise StorageError(
            f"{path}: these trials were made with other data or other settings; {FIX}"
        )


def _remove_incomplete_line(path: Path, lock: Any, on_note: Callable[[str], None]) -> None:
    """Remove a last line without a line end: Optuna would append the next line to it."""
    lock.acquire()  # otherwise another process may be writing the line
    try:
        end = _check_lines(path)
        if end < path.stat().st_size:
            with path.open("rb+") as stream:
                stream.truncate(end)
            on_note(f"{path}: its last line was incomplete and has been removed")
    finally:
        lock.release()


def _check_lines(path: Path) -> int:
    """Return the number of bytes up to the last line end.

    Raise StorageError if a line is not a journal entry: Optuna appends to any existing file.
    """
    end = 0
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
            incomplete = not line.endswith(b"\n")
            looks_right = end or line[: len(LINE_START)] == LINE_START[: len(line)]
            if incomplete and len(line) < MAX_LINE and looks_right:
                break
            if incomplete or not _is_entry(line):
                raise StorageError(
                    f"{path}: cannot be used as a study: line {number} is damaged or was not "
                    f"written by Optuna; {FIX}"
                )
            end += len(line)
    return end


def _is_entry(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    known = isinstance(entry, dict) and entry.get("op_code") in OP_CODES
    return known and isinstance(entry.get("worker_id"), str)


def check_trials(optuna: Any, search: Any, fixed: Mapping[str, Any], choices: Choices) -> None:
    """Raise ValueError unless the study has the direction and settings of this search."""
    if search.direction != optuna.study.StudyDirection.MAXIMIZE:
        raise ValueError(
            f"the study's direction is {search.direction.name.lower()}; expected maximize"
        )
    for trial in search.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        settings = as_json(suggest(optuna.trial.FixedTrial(trial.params), fixed, choices))
        if settings != trial.user_attrs["settings"] or math.isnan(trial.value):
            raise ValueError(f"trial {trial.number}: its settings were changed, or it has no gain")


def fingerprint_of(
    graph: MultiViewGraph, held_out: MultiViewGraph, fixed: Mapping[str, Any], seed: int
) -> str:
    """Return a hash of the data and the fixed settings of a search."""
    digest = hashlib.sha256(repr([repr(graph), sorted(map(str, fixed.items())), seed]).encode())
    hash_graphs(digest, graph, held_out)
    return digest.hexdigest()
