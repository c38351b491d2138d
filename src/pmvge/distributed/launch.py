"""Join and leave the process group that ``torchrun`` has started."""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import os

import torch
from torch import distributed

from pmvge.distributed.rendezvous import store_of_this_life
from pmvge.distributed.world import World
from pmvge.errors import ParameterError


def launched() -> bool:
    """Whether ``torchrun`` started this process, together with others."""
    return run_name() is not None and int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarted() -> bool:
    """Whether ``torchrun`` started it again, after one of the processes had died."""
    return run_name() is not None and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def run_name() -> str | None:
    """What ``torchrun`` calls this run, in all its lives; None without it."""
    return os.environ.get("TORCHELASTIC_RUN_ID")


def launched_as() -> tuple[int, int]:
    """Rank and number of the processes that ``torchrun`` started; (0, 1) without it."""
    if not launched():
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def is_first() -> bool:
    """Whether this process is alone, or the first of those that ``torchrun`` started."""
    return launched_as()[0] == 0


def common_seed() -> int | None:
    """A seed that all processes of a run have, in all their lives; None without ``torchrun``."""
    name = run_name()
    return None if name is None else int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])


def own_device(device: torch.device) -> torch.device:
    """The device of this process: with several of a kind, one each."""
    if device.type == "cuda" and device.index is None and launched():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def join(device: torch.device) -> World:
    """The world of this process; the group stays for later fits, to the end of the process."""
    if not distributed.is_available():
        return World(device=device)
    if not distributed.is_initialized():
        if not launched():
            return World(device=device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        # Its functions default to the group that there is when DDP imports them, and so would keep
        # it for ever: imported now, they default to none.
        importlib.import_module("torch.distributed.nn")
        store, rank, size = store_of_this_life()
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
        atexit.register(leave)
    if device.type == "mps":
        raise ParameterError("device: 'mps' cannot train in several processes; 'cpu' can")
    return World(distributed.get_rank(), distributed.get_world_size(), device)


def leave() -> None:
    """End the group and its threads: one that wants something of Python as it ends aborts all."""
    if distributed.is_initialized():
        gc.collect()  # what still holds the group would keep its threads
        distributed.destroy_process_group()
