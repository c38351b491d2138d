"""Collective operations of the processes that train one model together.

Each process draws links of its own share, and a step minimises the mean of their losses: R
processes make blocks of R times as many links. All processes hold the same weights.
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
    """The processes of a run.

    In a world of one process every operation returns its own argument, without communication.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this is the process of rank 0, which writes files and shows progress."""
        return self.rank == 0

    # -- numbers ----------------------------------------------------------------------------

    def total(self, value: float) -> float:
        """Return the sum of a number over all processes."""
        if self.size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self._collective_device)
        distributed.all_reduce(tensor)
        return float(tensor)

    def mean(self, value: float) -> float:
        """Return the mean of a number over all processes."""
        return self.total(value) / self.size

    def any(self, flag: bool) -> bool:
        """Return whether ``flag`` is true in at least one process."""
        return self.total(float(flag)) > 0

    def broadcast(self, number: int) -> int:
        """Return the number that the first process passed."""
        if self.size == 1:
            return number
        tensor = torch.tensor(number, dtype=torch.int64, device=self._collective_device)
        distributed.broadcast(tensor, 0)
        return int(tensor)

    def gather(self, content: bytes) -> list[bytes]:
        """Return the bytes of all processes, by rank."""
        if self.size == 1:
            return [content]
        own = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return [part.cpu().numpy().tobytes() for part in self.gather_rows(own)]

    def gather_rows(self, own: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all processes, by rank; their first dimensions may differ."""
        own = own.to(self._collective_device)
        length = torch.tensor([len(own)], device=own.device)
        lengths = [torch.zeros_like(length) for _ in range(self.size)]
        distributed.all_gather(lengths, length)
        longest = max(map(int, lengths))
        padded = own.new_zeros(longest, *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        return [part[: int(n)] for part, n in zip(parts, lengths, strict=True)]

    @property
    def _collective_device(self) -> torch.device:
        return self.device if self.device.type == "cuda" else CPU

    # -- training ---------------------------------------------------------------------------

    def data_parallel(
        self, loss: Callable[[Any], Any], *, find_unused_parameters: bool
    ) -> Callable[[Any], Any]:
        """Return the loss of a batch with a ``backward`` that averages gradients over processes.

        ``find_unused_parameters``: a batch may leave some parameters without a gradient.
        """
        if self.size == 1 or not isinstance(loss, nn.Module):
            return loss
        if not any(p.requires_grad for p in loss.parameters()):
            return loss
        return DistributedDataParallel(
            _AnchoredLoss(loss), find_unused_parameters=find_unused_parameters
        )

    def average_row_gradients(
        self, rows: torch.Tensor, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of a weight that any process used, and the mean loss's gradient in them.

        ``rows`` and ``gradient`` are those of this process.
        """
        if self.size == 1:
            return rows, gradient
        all_rows = torch.cat(self.gather_rows(rows))
        gradients = torch.cat(self.gather_rows(gradient))
        rows, index = torch.unique(all_rows, return_inverse=True)
        total = gradients.new_zeros(len(rows), gradients.shape[1])
        return rows, total.index_add_(0, index, gradients).div_(self.size)

    def broadcast_buffers(self, network: nn.Module) -> None:
        """Set the buffers of a network, its running statistics, to those of the first process."""
        if self.size > 1:
            for buffer in network.buffers():
                distributed.broadcast(buffer, 0)


class _AnchoredLoss(nn.Module):
    """A loss that always depends on a parameter that DistributedDataParallel exchanges.

    A loss that depends on lazily updated rows only has no other such parameter.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.anchor = nn.Parameter(torch.zeros((), device=next(loss.parameters()).device))

    def forward(self, batch: Any) -> Any:
        loss = self.loss(batch)
        return loss._replace(value=loss.value + 0.0 * self.anchor)
