"""Tiles of entity pairs: the vectors of both sides in float64, without a copy of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

TILE_ENTITIES = 512  # entities a side of one tile: its terms stay in a core's cache


def to_double(Y: Array) -> torch.Tensor:
    """Return a copy of an array as a float64 tensor."""
    return torch.from_numpy(np.array(Y, dtype=np.float64))


def tile_rows(
    query: Array, candidate: Array, *, within: bool, tile: int = TILE_ENTITIES
) -> Iterator[tuple[torch.Tensor, Iterator[tuple[torch.Tensor, bool]]]]:
    """Yield queries (h, Q), and for each tile its candidates (w, Q) and whether it is diagonal.

    With ``within``, tiles below the diagonal are left out. Of a tile on it, only the pairs above
    its own diagonal are to be used.
    """
    for i in range(0, len(query), tile):
        starts = range(i if within else 0, len(candidate), tile)
        tiles = ((to_double(candidate[j : j + tile]), within and i == j) for j in starts)
        yield to_double(query[i : i + tile]), tiles
