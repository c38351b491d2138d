"""What comes of a damaged input: accepted, refused with a message, or a failure."""

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

SECONDS = 10  # that an input may take
MEGABYTES = 512  # by which the memory in use may grow while an input is read
LETTERS = 2000  # that a message may have


@dataclass(frozen=True)
class Outcome:
    """``kind`` is "accepted", "refused" or "failed"; ``message`` says why."""

    kind: str
    message: str
    seconds: float


class Overtime(BaseException):
    """It takes too long. No Exception: readers must not take it for one of theirs."""


def judge(case: Case) -> Outcome:
    """Read one input in a folder of its own."""
    started = time.perf_counter()
    with _place() as place:
        case.write(place / "input")
        _forget_peak()
        before, peak = _listing(place), _peak()
        kind, message = _read(case, place)
        seconds = time.perf_counter() - started
        if kind != "failed":
            wrong = _wrong(before, _listing(place), seconds, _peak() - peak)
            if wrong:
                return Outcome("failed", f"{wrong} ({kind}: {message})", seconds)
        return Outcome(kind, message, seconds)


def _read(case: Case, place: Path) -> tuple[str, str]:
    try:
        with _alarm(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows that are dropped, and the like
            case.target.read(place / "input", place / "output")
    except PmvgeError as error:
        return _message(error, place)
    except Overtime:
        return "failed", f"more than {SECONDS} s:\n{traceback.format_exc()}"
    except BaseException:
        return "failed", traceback.format_exc()
    return "accepted", ""


def _message(error: PmvgeError, place: Path) -> tuple[str, str]:
    told = str(error)
    if not told.strip():
        return "failed", f"{type(error).__name__} without a message"
    if len(told.splitlines()) > 1:
        return "failed", f"{type(error).__name__}: a message of several lines:\n{told}"
    if len(told) > LETTERS:
        return "failed", f"{type(error).__name__}: a message of {len(told)} letters: {told[:400]}"
    return "refused", told.replace(str(place), "...")


def _wrong(before: object, after: object, seconds: float, more: float) -> str:
    if before != after:
        return f"files were written outside the output: {before} became {after}"
    if seconds > SECONDS:
        return f"it took {seconds:.1f} s"
    return f"it took {more:.0f} MB more" if more > MEGABYTES else ""


@contextmanager
def _place() -> Iterator[Path]:
    """A folder with input, output, home and temporary folder, which are those of the process."""
    old, home, temporary = Path.cwd(), os.environ.get("HOME"), tempfile.tempdir
    place = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
    try:
        for name in ("input", "output", "home", "temporary"):
            (place / name).mkdir()
        os.environ["HOME"], tempfile.tempdir = str(place / "home"), str(place / "temporary")
        os.chdir(place / "input")
        yield place
    finally:
        os.chdir(old)
        tempfile.tempdir = temporary
        if home is None:
            os.environ.pop("HOME")
        else:
            os.environ["HOME"] = home
        shutil.rmtree(place, ignore_errors=True)


def _listing(place: Path) -> dict[str, int]:
    """All files and folders but those of the output; halves that were left behind there, too."""
    return {
        path.relative_to(place).as_posix(): path.stat().st_mtime_ns if path.is_file() else 0
        for path in sorted(place.rglob("*"))
        if "output/" not in path.relative_to(place).as_posix() or "partial" in path.name
    }


def _forget_peak() -> None:
    """The peak so far counts no more, where the system can do that: else only a higher one does."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Overtime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
