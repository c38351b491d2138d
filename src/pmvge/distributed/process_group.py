"""Join and leave the process group that ``torchrun`` has started."""

from __future__ import annotations

import atexit
import gc
import importlib
import os

import torch
from torch import distributed

from pmvge.distributed.environment import launched
from pmvge.distributed.rendezvous import restart_safe_store
from pmvge.distributed.world import World
from pmvge.errors import ParameterError


def process_device(device: torch.device) -> torch.device:
    """Return the device of this process: with several GPUs, the one of its local rank."""
    if device.type == "cuda" and device.index is None and launched():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def join_process_group(device: torch.device) -> World:
    """Return the world of this process, and join the process group if ``torchrun`` started one.

    The group exists until the process ends; later fits use it too. Raise ParameterError if the
    device cannot train in several processes.
    """
    if not distributed.is_available():
        return World(device=device)
    if not distributed.is_initialized():
        if not launched():
            return World(device=device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        # DDP imports this module, whose functions have the current process group as a default
        # argument. Import it before there is a group: a reference would keep the group alive.
        importlib.import_module("torch.distributed.nn")
        store, rank, size = restart_safe_store()
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
        atexit.register(leave_process_group)
    if device.type == "mps":
        raise ParameterError(
            "device: 'mps' cannot train in several processes; use device='cpu' or one process"
        )
    return World(distributed.get_rank(), distributed.get_world_size(), device)


def leave_process_group() -> None:
    """Destroy the process group and join its threads.

    A thread of the group that is still running when the interpreter shuts down aborts the process.
    """
    if distributed.is_initialized():
        gc.collect()  # drop references to the group, which would keep its threads
        distributed.destroy_process_group()
