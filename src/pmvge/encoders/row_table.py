"""Weight tables of which a batch needs few rows."""

from __future__ import annotations

from collections.abc import Callable

import torch


class RowTable:
    """A module with a ``weight`` (n, K) of which a batch may need few rows.

    From ``begin_lazy`` on, wherever there will be gradients, a batch gets a copy of its rows. The
    optimizer finds the copies, and their gradients, in ``lent``: no gradient of all rows is made.
    """

    weight: torch.Tensor
    by_rows = False  # whether batches ask for rows at all
    catch_up: Callable[[torch.Tensor], None] | None = None  # called with rows before they are used
    lent: list[tuple[torch.Tensor, torch.Tensor]]  # rows, and their copy

    def begin_lazy(self, catch_up: Callable[[torch.Tensor], None]) -> None:
        """Lend copies from now on."""
        self.catch_up, self.lent = catch_up, []
        self.weight.requires_grad_(False)  # its gradient comes by the copies

    def end_lazy(self) -> None:
        """Be an ordinary layer again."""
        self.catch_up, self.lent = None, []
        self.weight.requires_grad_()

    def table(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A table, and where in it the rows at ``index`` are."""
        if self.catch_up is None:
            return self.weight, index
        rows, place = torch.unique(index, return_inverse=True)
        self.catch_up(rows)
        if not torch.is_grad_enabled():
            return self.weight, index
        copy = self.weight.detach()[rows].requires_grad_()
        self.lent.append((rows, copy))
        return copy, place
