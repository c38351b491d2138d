"""Counts of scores above and at levels equal a loop's."""

from __future__ import annotations

import math

import pytest
import torch

from pmvge.evaluation import counting


def brute_force(values, levels):
    above = [sum(v > level for v in values) for level in levels]
    return above, [sum(v == level for v in values) for level in levels]


CASES = {
    "spread": lambda g: (torch.randn(300, generator=g), torch.randn(20, generator=g)),
    "ties": lambda g: (
        torch.randint(5, (300,), generator=g) / 7,
        torch.randint(5, (20,), generator=g) / 7,
    ),
    "outside": lambda g: (torch.randn(300, generator=g) * 100, torch.randn(20, generator=g)),
    "left out": lambda g: (torch.full((300,), -math.inf), torch.randn(20, generator=g)),
    "one level": lambda g: (torch.randn(300, generator=g), torch.zeros(1)),
    "huge": lambda g: (torch.randn(300, generator=g) * 1e37, torch.randn(20, generator=g) * 1e37),
    "tiny": lambda g: (torch.randn(300, generator=g) * 1e-38, torch.randn(20, generator=g) * 1e-38),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("cells", [2, 16, 256])  # 256: fewer than the values, so the grid is used
def test_counts_among_all_equal_a_loop(name, cells, monkeypatch):
    monkeypatch.setattr(counting, "CELLS", cells)
    values, levels = CASES[name](torch.Generator().manual_seed(cells))
    values[::9] = -math.inf
    values[1::9] = levels[torch.arange(len(values[1::9])) % len(levels)]
    levels = torch.unique(levels)
    above, equal = counting.count_among_all(values, levels)
    assert (above.tolist(), equal.tolist()) == brute_force(values.tolist(), levels.tolist())


def test_counts_by_row_equal_a_loop():
    g = torch.Generator().manual_seed(0)
    values, levels = (
        torch.randint(6, (4, 50), generator=g).float(),
        torch.randint(6, (4, 3)).float(),
    )
    levels = levels.sort(dim=1).values
    above, equal = counting.count_by_row(values, levels)
    for row in range(4):
        found = above[row].tolist(), equal[row].tolist()
        assert found == brute_force(values[row].tolist(), levels[row].tolist())
