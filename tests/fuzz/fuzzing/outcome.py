"""Read one damaged input and classify the outcome: accepted, refused or failed."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fuzzing.target import Case
from pmvge.errors import PmvgeError

MAX_SECONDS = 10  # of CPU time per input: a busy machine does not matter
MAX_MEGABYTES = 512  # growth of the peak memory while an input is read
MAX_MESSAGE = 2000  # characters of an error message


@dataclass(frozen=True)
class Outcome:
    """``kind`` is "accepted", "refused" or "failed"; ``message`` says why."""

    kind: str
    message: str
    seconds: float


class TimeLimitExceeded(BaseException):
    """An input takes too much CPU time. Not an Exception: readers must not catch it."""


def run_case(case: Case) -> Outcome:
    """Read one input in a temporary folder and return the outcome."""
    started = time.perf_counter()
    with _sandbox() as folder:
        case.write(folder / "input")
        _reset_peak()
        before, peak, cpu = _listing(folder), _peak(), time.process_time()
        kind, message = _read(case, folder)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - started
        if kind != "failed":
            violation = _violation(before, _listing(folder), cpu, _peak() - peak)
            if violation:
                return Outcome("failed", f"{violation} ({kind}: {message})", seconds)
        return Outcome(kind, message, seconds)


def _read(case: Case, folder: Path) -> tuple[str, str]:
    try:
        with _alarm(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those about dropped rows
            case.target.read(folder / "input", folder / "output")
    except PmvgeError as error:
        return _check_message(error, folder)
    except TimeLimitExceeded:
        return "failed", f"more than {MAX_SECONDS} s of CPU time:\n{traceback.format_exc()}"
    except BaseException:
        return "failed", traceback.format_exc()
    return "accepted", ""


def _check_message(error: PmvgeError, folder: Path) -> tuple[str, str]:
    """Return the kind and message of an error; its message must be one line of limited length."""
    name, message = type(error).__name__, str(error)
    if not message.strip():
        return "failed", f"{name} without a message"
    if len(message.splitlines()) > 1:
        return "failed", f"{name}: a message of several lines:\n{message}"
    if len(message) > MAX_MESSAGE:
        return "failed", f"{name}: a message of {len(message)} characters: {message[:400]}"
    return "refused", message.replace(str(folder), "...")


def _violation(before: object, after: object, cpu: float, growth: float) -> str:
    """Return which limit was exceeded, or an empty text."""
    if before != after:
        return f"files were written outside the output: {before} became {after}"
    if cpu > MAX_SECONDS:
        return f"it took {cpu:.1f} s of CPU time"
    return f"it took {growth:.0f} MB more" if growth > MAX_MEGABYTES else ""


@contextmanager
def _sandbox() -> Iterator[Path]:
    """Make input, output, home and temporary folders, and use them as those of the process."""
    old, home, temporary = Path.cwd(), os.environ.get("HOME"), tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
    try:
        for name in ("input", "output", "home", "temporary"):
            (folder / name).mkdir()
        os.environ["HOME"], tempfile.tempdir = str(folder / "home"), str(folder / "temporary")
        os.chdir(folder / "input")
        yield folder
    finally:
        os.chdir(old)
        tempfile.tempdir = temporary
        if home is None:
            os.environ.pop("HOME")
        else:
            os.environ["HOME"] = home
        shutil.rmtree(folder, ignore_errors=True)


def _listing(folder: Path) -> dict[str, int]:
    """Return times of all files and folders outside the output, and of partial files inside."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns if path.is_file() else 0
        for path in sorted(folder.rglob("*"))
        if "output/" not in path.relative_to(folder).as_posix() or "partial" in path.name
    }


def _reset_peak() -> None:
    """Reset the peak memory of this process, where Linux supports it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _alarm() -> Iterator[None]:
    """Raise TimeLimitExceeded after MAX_SECONDS of CPU time."""

    def stop(*_: object) -> None:
        raise TimeLimitExceeded

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
