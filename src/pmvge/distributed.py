"""Several processes that train one model: who takes part, and what they tell each other.

Started by ``torchrun``, each process draws links of its own share, and a step descends the mean of
their losses: R processes make blocks of R times as many links. All hold the same weights.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from pmvge.errors import GraphError, ParameterError
from pmvge.graph import MultiViewGraph
from pmvge.meeting import store_of_this_life

CPU = torch.device("cpu")


@dataclass(frozen=True)
class World:
    """The processes of a run. Alone, everything here is what a single process would do anyway."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    # -- numbers ----------------------------------------------------------------------------

    def total(self, value: float) -> float:
        """The sum of a number over all processes."""
        if self.size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self._place)
        distributed.all_reduce(tensor)
        return float(tensor)

    def mean(self, value: float) -> float:
        """The mean of a number over all processes."""
        return self.total(value) / self.size

    def any(self, flag: bool) -> bool:
        """Whether it is so in some process."""
        return self.total(float(flag)) > 0

    def from_first(self, number: int) -> int:
        """The first process's number."""
        if self.size == 1:
            return number
        tensor = torch.tensor(number, dtype=torch.int64, device=self._place)
        distributed.broadcast(tensor, 0)
        return int(tensor)

    def gather(self, text: bytes) -> list[bytes]:
        """The texts of all processes, by rank."""
        if self.size == 1:
            return [text]
        own = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        return [part.cpu().numpy().tobytes() for part in self.gather_rows(own)]

    def gather_rows(self, own: torch.Tensor) -> list[torch.Tensor]:
        """Tensors of all processes that differ in their first dimension only, by rank."""
        own = own.to(self._place)
        length = torch.tensor([len(own)], device=own.device)
        lengths = [torch.zeros_like(length) for _ in range(self.size)]
        distributed.all_gather(lengths, length)
        most = max(map(int, lengths))
        padded = own.new_zeros(most, *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        return [part[: int(n)] for part, n in zip(parts, lengths, strict=True)]

    @property
    def _place(self) -> torch.device:
        return self.device if self.device.type == "cuda" else CPU

    # -- training ---------------------------------------------------------------------------

    def shared(self, loss: Callable[[Any], Any], *, partly_used: bool) -> Callable[[Any], Any]:
        """The loss of a batch, whose ``backward`` averages gradients over all processes.

        ``partly_used``: a batch may leave some parameters out.
        """
        if self.size == 1 or not isinstance(loss, nn.Module):
            return loss
        if not any(p.requires_grad for p in loss.parameters()):
            return loss
        return DistributedDataParallel(_Joined(loss), find_unused_parameters=partly_used)

    def mean_of_rows(
        self, rows: torch.Tensor, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient of the mean loss in some rows of a table, from those of all processes."""
        if self.size == 1:
            return rows, gradient
        every = torch.cat(self.gather_rows(rows))
        parts = torch.cat(self.gather_rows(gradient))
        rows, place = torch.unique(every, return_inverse=True)
        total = parts.new_zeros(len(rows), parts.shape[1])
        return rows, total.index_add_(0, place, parts).div_(self.size)

    def same_buffers(self, network: nn.Module) -> None:
        """Running statistics as the first process has them."""
        if self.size > 1:
            for buffer in network.buffers():
                distributed.broadcast(buffer, 0)

    def share_of(self, graph: MultiViewGraph) -> MultiViewGraph:
        """The links that this process draws from: every R-th, so that shares are alike."""
        if self.size == 1:
            return graph
        if graph.n_links < self.size:
            raise GraphError(
                f"{graph.n_links} links to train on cannot be shared by {self.size} processes: "
                "start fewer"
            )
        every, rest = self.size, self.rank
        shares = {}
        for pair, links in graph.links.items():
            shares[pair] = links.select(np.arange(rest, len(links), every))
            rest = (rest - len(links)) % every  # the next pair goes on where this one ended
        return graph.with_links(shares)


class _Joined(nn.Module):
    """A loss that takes part in the exchange of gradients whatever it depends on.

    One of tables that are updated by row depends on no parameter that is exchanged.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.anchor = nn.Parameter(torch.zeros((), device=next(loss.parameters()).device))

    def forward(self, batch: Any) -> Any:
        loss = self.loss(batch)
        return loss._replace(value=loss.value + 0.0 * self.anchor)


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
