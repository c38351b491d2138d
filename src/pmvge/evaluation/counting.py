"""Count how many scores are above and at the scores of links."""

from __future__ import annotations

import math

import torch

CELLS = 1 << 20  # of the grid that most values are counted with


def count_by_row(values: torch.Tensor, levels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Count the values (R, c) above and at each level (R, r) of their row; levels ascend."""
    padded = torch.cat([levels, levels.new_full((len(levels), 1), math.inf)], 1)
    level = torch.searchsorted(padded, values)  # the first level that is not below the value
    tied = padded.gather(1, level) == values
    R, r = padded.shape
    level.add_(torch.arange(R)[:, None] * r).mul_(2).add_(tied)
    counts = torch.bincount(level.view(-1), minlength=2 * R * r).view(R, r, 2)
    n_at_or_below = counts.sum(2).cumsum(1)
    first = torch.searchsorted(padded, levels)  # the first of equal levels has the counts
    return values.shape[1] - n_at_or_below.gather(1, first), counts[..., 1].gather(1, first)


def count_among_all(
    values: torch.Tensor, levels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Count the values above and at each level; levels ascend and differ.

    A value is compared with levels only if its cell of an even grid has a level. Values of other
    cells are counted by cell: the cell is a non-decreasing function of the value, also in float32.
    """
    values = values.reshape(-1)
    low, high = float(levels[0]), float(levels[-1])
    scale = (CELLS - 1) / (high - low) if high > low else 0.0
    if not 0 < scale < 1e30 or values.numel() < CELLS:
        above, equal = count_by_row(values[None], levels[None])
        return above[0], equal[0]
    cells = _cells(values, low, scale)
    cell_of_level = _cells(levels, low, scale)
    has_level = torch.zeros(CELLS, dtype=torch.bool)
    has_level[cell_of_level] = True
    near = has_level[cells]
    close = values[near]
    above, equal = (n[0] for n in count_by_row(close[None], levels[None]))
    n_in_cell = torch.bincount(cells, minlength=CELLS)
    n_in_cell[has_level] = 0  # these values are among ``close``
    n_above_cell = n_in_cell.flip(0).cumsum(0).flip(0)
    return above + n_above_cell[cell_of_level], equal


def _cells(values: torch.Tensor, low: float, scale: float) -> torch.Tensor:
    """Return the cells of values, -inf included, as int64."""
    return (values - low).mul_(scale).clamp_(0, CELLS - 1).long()
