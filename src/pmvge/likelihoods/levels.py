r"""log alpha of entity pairs that depends on which entities were in training.

Expected weights of new entities can be wrong by a factor: their vectors come from features alone. A
view pair then has four values of log alpha, for entity pairs of which no side, one or both are new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links, canonical

KINDS = {(0, 1): "known-new", (1, 0): "new-known", (1, 1): "new-new"}  # (row is new, column is new)
IsNew = NDArray[np.bool_ | np.int64]  # whether each entity is new


@dataclass(frozen=True, eq=False)
class PairLevels:
    """log alpha of the entity pairs of a view pair, by whether each side is new."""

    table: NDArray[np.float64]  # (2, 2): [row is new, column is new]
    left: IsNew  # (n,) of rows; stored as int64, because they index ``table``
    right: IsNew  # (m,) of columns

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            vars(self)[name] = np.asarray(vars(self)[name], np.int64)

    def at(self, rows: Any, columns: Any) -> NDArray[np.float64]:
        """Return log alpha of entity pairs; positions of rows and columns are broadcast."""
        level: NDArray[np.float64] = self.table[self.left[rows], self.right[columns]]
        return level

    def matrix(self, rows: Any = slice(None)) -> NDArray[np.float64]:
        """Return log alpha (h, m) of some rows with all columns."""
        return self.at(np.arange(len(self.left))[rows][:, None], slice(None))


Level = float | PairLevels  # log alpha of all entity pairs of a view pair


def shifted(level: Level, offset: float) -> Level:
    """Return log alpha with ``offset`` added."""
    if isinstance(level, PairLevels):
        return PairLevels(level.table + offset, level.left, level.right)
    return level + offset


class KindBlock(NamedTuple):
    """The entity pairs of one kind: rows, columns, and the links among them."""

    kind: tuple[int, int]  # (row is new, column is new)
    rows: NDArray[np.int64]  # (r,) positions
    columns: NDArray[np.int64]  # (c,)
    links: Links  # between positions in ``rows`` and in ``columns``


def kind_blocks(links: Links, left: IsNew, right: IsNew) -> Iterator[KindBlock]:
    """Yield the entity pairs of each kind that has any; every entity pair is in one block.

    Within a view the pairs of a new and a known entity are one block, with new entities as rows.
    """
    new = (np.asarray(left, bool), np.asarray(right, bool))
    i, j = links.rows.astype(np.int64), links.cols.astype(np.int64)
    if links.within:  # the new entity first
        turned = new[0][j] & ~new[0][i]
        i, j = np.where(turned, j, i), np.where(turned, i, j)
    for kind in ((0, 0), (1, 0), (0, 1), (1, 1)):
        if links.within and kind == (0, 1):
            continue
        rows, columns = (
            np.flatnonzero(side == bool(is_new)) for side, is_new in zip(new, kind, strict=True)
        )
        within = links.within and kind[0] == kind[1]
        if not len(rows) or not len(columns) or (within and len(rows) < 2):
            continue
        here = (new[0][i] == bool(kind[0])) & (new[1][j] == bool(kind[1]))
        yield KindBlock(
            kind,
            rows,
            columns,
            canonical(
                np.searchsorted(rows, i[here]),
                np.searchsorted(columns, j[here]),
                links.weights[here],
                (len(rows), len(columns)),
                within,
            ),
        )
