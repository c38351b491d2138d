r"""Stop OpenMP threads from spinning while other processes need the cores.

GNU OpenMP, which torch uses on Linux, lets a thread that waits for the others of its team spin for
some milliseconds. On a quiet machine this is fast. Beside other busy processes a spinning thread
takes the core that the awaited thread needs, and a training step takes up to a hundred times as
long. The spin count is read from the environment when the library is loaded, which is too late for
a package that is imported after torch.

But GNU OpenMP spins hardly at all while it manages more threads than there are cores. So
:class:`SpinThrottle` measures whether the process is preempted, and if it is, keeps idle OpenMP
teams alive: their threads sleep and cost nothing. The teams that compute are left alone, so that
results are the same bits.
"""

from __future__ import annotations

import math
import os
import threading
import time
from types import TracebackType
from typing import NamedTuple

import torch
from threadpoolctl import threadpool_info

WINDOW = 0.25  # seconds between two measurements
HOLD = 10.0  # seconds that a throttle stays before the machine is measured again
MAX_USE = 0.75  # spinning threads that get all cores they want use more than this share of them,
MIN_PREEMPTIONS = 100.0  # and are preempted less often than this, per second
PARALLEL = 1 << 20  # numbers whose sum torch computes in parallel
SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # a user who sets one has decided


class Usage(NamedTuple):
    """Seconds on the clock, seconds of CPU time, and preemptions of this process so far."""

    wall: float
    cpu: float
    preemptions: int


def usage() -> Usage:
    """Read the clock and what this process has used."""
    import resource  # not on Windows, where `applies` is False

    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(time.monotonic(), used.ru_utime + used.ru_stime, used.ru_nivcsw)


def applies() -> bool:
    """Return whether torch computes in several GNU OpenMP threads whose spinning is not set."""
    if torch.get_num_threads() < 2 or any(name in os.environ for name in SETTINGS):
        return False
    return any(info["prefix"] == "libgomp" for info in threadpool_info())


def is_contended(before: Usage, after: Usage, n_threads: int) -> bool:
    """Return whether spinning threads were kept from running between two measurements."""
    seconds = after.wall - before.wall
    share = (after.cpu - before.cpu) / (n_threads * seconds)
    return share < MAX_USE and (after.preemptions - before.preemptions) / seconds > MIN_PREEMPTIONS


class SpinThrottle:
    """Throttle spinning while the machine is busy; call :meth:`check` after each step.

    Inside the ``with`` block only. Does nothing with one thread, with another OpenMP library, or
    if the environment sets ``GOMP_SPINCOUNT`` or ``OMP_WAIT_POLICY``.
    """

    def __init__(self) -> None:
        self._threads = torch.get_num_threads()
        self._applies = applies()
        self._teams: IdleTeams | None = None
        self._release = 0.0
        self._before = usage() if self._applies else Usage(0.0, 0.0, 0)

    def __enter__(self) -> SpinThrottle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def active(self) -> bool:
        """Return whether spinning is throttled now."""
        return self._teams is not None

    def check(self) -> None:
        """Measure if it is time to, and start or end the throttle."""
        if not self._applies or time.monotonic() - self._before.wall < WINDOW:
            return
        before, self._before = self._before, usage()
        if self._teams is not None:
            if self._before.wall >= self._release:
                self._stop()
        elif is_contended(before, self._before, self._threads):
            self._teams = IdleTeams(self._threads, os.cpu_count() or 1)
            self._release = self._before.wall + HOLD

    def _stop(self) -> None:
        if self._teams is not None:
            self._teams.close()
            self._teams = None


class IdleTeams:
    """OpenMP teams that do nothing, so many that there are more threads than cores."""

    def __init__(self, n_threads: int, n_cores: int) -> None:
        self._done = threading.Event()
        n_teams = max(1, math.ceil((n_cores - n_threads + 1) / (n_threads - 1)))
        ready = threading.Barrier(n_teams + 1)
        self._owners = [
            threading.Thread(target=self._own, args=(ready,), name="pmvge-idle-team", daemon=True)
            for _ in range(n_teams)
        ]
        for owner in self._owners:
            owner.start()
        ready.wait()

    def _own(self, ready: threading.Barrier) -> None:
        """Start a team by a parallel sum, and keep it until :meth:`close`."""
        torch.ones(PARALLEL).sum()
        ready.wait()
        self._done.wait()

    def close(self) -> None:
        """End the teams."""
        self._done.set()
        for owner in self._owners:
            owner.join()
