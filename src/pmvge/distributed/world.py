"""Collectives of the processes that train one model together.

Each process draws links of its own share, and a step descends the mean of their losses: R processes
make blocks of R times as many links. All hold the same weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

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
