"""Weights with many rows, of which a batch needs few."""

from __future__ import annotations

from collections.abc import Callable

import torch

RowUpdate = Callable[[torch.Tensor], None]


class LazyRows:
    """A module with a ``weight`` (n, K) whose rows can be updated when a batch needs them.

    After :meth:`start_lazy_updates`, a batch that needs gradients gets a copy of its rows. The
    optimizer finds the copies, and their gradients, in ``row_copies``; no gradient of the complete
    weight is computed.
    """

    weight: torch.Tensor
    accessed_by_row = False  # whether batches read single rows at all
    lr_multiplier = 1.0  # the learning rate of ``weight``, as a multiple of that of other weights
    decays = True  # whether weight decay applies to ``weight``
    update_rows: RowUpdate | None = None  # brings rows up to date before they are read
    row_copies: list[tuple[torch.Tensor, torch.Tensor]]  # row numbers, and a copy of these rows

    def start_lazy_updates(self, update_rows: RowUpdate) -> None:
        """Give copies of rows to batches, after ``update_rows`` has been called with the rows."""
        self.update_rows, self.row_copies = update_rows, []
        self.weight.requires_grad_(False)  # the copies have the gradients

    def stop_lazy_updates(self) -> None:
        """Make this an ordinary layer again, with gradients of the complete weight."""
        self.update_rows, self.row_copies = None, []
        self.weight.requires_grad_()

    def rows_at(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a matrix that contains the rows ``index``, and their positions in it."""
        if self.update_rows is None:
            return self.weight, index
        rows, position = torch.unique(index, return_inverse=True)
        self.update_rows(rows)
        if not torch.is_grad_enabled():
            return self.weight, index
        copy = self.weight.detach()[rows].requires_grad_()
        self.row_copies.append((rows, copy))
        return copy, position
