"""The rank, size and id of a run, from the environment variables that ``torchrun`` sets."""

from __future__ import annotations

import os


def launched() -> bool:
    """Return whether ``torchrun`` started this process together with others."""
    return run_id() is not None and int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarted() -> bool:
    """Return whether ``torchrun`` restarted this process after a failure."""
    return run_id() is not None and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def run_id() -> str | None:
    """Return ``torchrun``'s id of this run, which restarts keep; None without ``torchrun``."""
    return os.environ.get("TORCHELASTIC_RUN_ID")


def rank_and_size() -> tuple[int, int]:
    """Return this process's rank and the number of processes; (0, 1) without ``torchrun``."""
    if not launched():
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def is_first() -> bool:
    """Return whether this is the only process, or the one of rank 0."""
    return rank_and_size()[0] == 0
