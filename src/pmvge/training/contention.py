r"""Stop OpenMP threads from spinning while other processes need the cores.

In GNU OpenMP, which torch uses on Linux, a thread that waits for the others of its team spins for
some milliseconds. This is fast if all cores are free. If other processes use the cores, a spinning
thread may occupy the core that the awaited thread needs, and a training step can take a hundred
times as long. GNU OpenMP reads the spin count from the environment when it is loaded, so a package
that is imported after torch cannot set it.

GNU OpenMP spins much less while it manages more threads than there are cores. Therefore
:class:`SpinThrottle` measures whether the process is preempted. If it is, it keeps idle OpenMP
teams, whose threads sleep and use no CPU time. The teams that compute do not change, so results are
equal to the last bit.
"""

from __future__ import annotations

import math
import os
import threading
import time
from typing import NamedTuple

import torch
from threadpoolctl import threadpool_info

WINDOW = 0.1  # seconds between two measurements
HOLD = 10.0  # seconds that a throttle stays before the machine is measured again
MAX_USE = 0.75  # spinning threads that get all cores they want use more than this share of them,
MIN_PREEMPTIONS = 100.0  # and are preempted less often than this, per second of CPU time
MAX_TEAMS = 16  # with so many cores more than threads, spinning does little harm
PARALLEL = 1 << 20  # numbers whose sum torch computes in parallel
SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # a user who sets one has decided


class Usage(NamedTuple):
    """Wall-clock seconds, seconds of CPU time, and preemptions of this process so far."""

    wall: float
    cpu: float
    preemptions: int


def usage() -> Usage:
    """Return the time, and the CPU time and preemptions of this process."""
    import resource  # not on Windows, where `applies` is False

    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(time.monotonic(), used.ru_utime + used.ru_stime, used.ru_nivcsw)


def applies() -> bool:
    """Return whether torch uses several GNU OpenMP threads with the default spin count."""
    if torch.get_num_threads() < 2 or any(name in os.environ for name in SETTINGS):
        return False
    return any(info["prefix"] == "libgomp" for info in threadpool_info())


def is_contended(before: Usage, after: Usage, n_threads: int) -> bool:
    """Return whether spinning threads were kept from running between two measurements.

    Preemptions are counted per second of CPU time: a process that hardly runs is hardly preempted.
    """
    cpu = after.cpu - before.cpu
    share = cpu / (n_threads * (after.wall - before.wall))
    return share < MAX_USE and after.preemptions - before.preemptions > MIN_PREEMPTIONS * cpu


def n_idle_teams(n_threads: int) -> int:
    """Return how many idle teams make more threads than cores; 0 if that would be too many."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    n_cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    n_teams = max(1, math.ceil((n_cores - n_threads + 1) / (n_threads - 1)))
    return n_teams if n_teams <= MAX_TEAMS else 0


class SpinThrottle:
    """A context that throttles spinning while cores are contended.

    Call :meth:`check` after each step. Nothing is throttled with one thread, with another OpenMP
    library, or if the environment sets ``GOMP_SPINCOUNT`` or ``OMP_WAIT_POLICY``.
    """

    def __init__(self) -> None:
        self._threads = torch.get_num_threads()
        self._n_teams = n_idle_teams(self._threads) if applies() else 0
        self._teams: IdleTeams | None = None
        self._release = 0.0
        self._before = usage() if self._n_teams else Usage(0.0, 0.0, 0)

    def __enter__(self) -> SpinThrottle:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def active(self) -> bool:
        """Whether spinning is throttled now."""
        return self._teams is not None

    def check(self) -> None:
        """Start or end the throttle, if ``WINDOW`` seconds have passed since the last check."""
        if not self._n_teams or time.monotonic() - self._before.wall < WINDOW:
            return
        before, self._before = self._before, usage()
        if self._teams is not None:
            if self._before.wall >= self._release:
                self._stop()
        elif is_contended(before, self._before, self._threads):
            self._teams = IdleTeams(self._n_teams)
            self._release = self._before.wall + HOLD

    def _stop(self) -> None:
        if self._teams is not None:
            self._teams.close()
            self._teams = None


class IdleTeams:
    """OpenMP teams that do nothing."""

    def __init__(self, n_teams: int) -> None:
        self._done = threading.Event()
        self._owners = [
            threading.Thread(target=self._own, name="pmvge-idle-team", daemon=True)
            for _ in range(n_teams)
        ]
        try:
            for owner in self._owners:
                owner.start()
        except RuntimeError:  # no more threads can be started: go on without
            self.close()
        except BaseException:  # Ctrl-C: the threads that run end by themselves
            self._done.set()
            raise

    def _own(self) -> None:
        """Start a team by a parallel sum, and keep it until :meth:`close`."""
        torch.ones(PARALLEL).sum()
        self._done.wait()

    def close(self) -> None:
        """End the teams."""
        self._done.set()
        for owner in self._owners:
            if owner.ident is not None:  # it was started
                owner.join()
