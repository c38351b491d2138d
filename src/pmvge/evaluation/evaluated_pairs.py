"""The evaluated pairs of a view pair: queries, candidates, held-out and known links, and scores.

Scores are computed for a few queries at a time and never stored for all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError
from pmvge.graph import Links
from pmvge.likelihoods import Level, PairLevels
from pmvge.similarities import Similarity

MAX_SCORES = 1 << 22  # scores held at once; more are not faster


@dataclass(frozen=True, eq=False)
class EvaluatedPairs:
    """The evaluated pairs: R queries and all m candidates, without known links."""

    query: torch.Tensor  # (R, Q)
    candidate: torch.Tensor  # (m, Q)
    rows: NDArray[np.int64]  # (R,) positions of the queries
    truth: sparse.csr_array  # (R, m) held-out weights
    known: sparse.csr_array | None  # (R, m)
    within: bool
    similarity: Similarity
    once: bool  # all entities of one view are queries: count (i, j) and (j, i) once

    def count(self) -> int:
        """Return the number of evaluated (query, candidate) pairs."""
        left_out = 0 if self.known is None else int(self.known.nnz)
        return len(self.rows) * (len(self.candidate) - self.within) - left_out

    def tiles(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield queries and their scores (queries, m), -inf where a pair is not evaluated.

        Tiles are the same in every pass: the scores of a pair are equal to the last bit.
        """
        height = max(1, MAX_SCORES // len(self.candidate))
        for start in range(0, len(self.rows), height):
            part = slice(start, min(start + height, len(self.rows)))
            with torch.no_grad():
                g = self.similarity.outer(self.query[part] @ self.candidate.T)
            if self.known is not None:
                g[entries(self.known[part])] = -math.inf
            if self.within:
                g[torch.arange(len(g)), torch.from_numpy(self.rows[part])] = -math.inf
            yield part, g


def without_known(
    held_out: Links, known: Links | None
) -> tuple[sparse.csr_array, sparse.csr_array | None]:
    """Return the weights of held-out links that are not known, and of the known links.

    Raise InputError if all held-out links are known.
    """
    truth, seen = held_out.matrix(), None
    if known is not None:
        seen = known.matrix()
        truth = (truth - truth.multiply(seen > 0)).tocsr()
        truth.eliminate_zeros()
    if truth.nnz == 0:
        raise InputError(
            f"held_out: expected links that are not in known, got none among {len(held_out)}"
        )
    return truth, seen


def draw_queries(truth: sparse.csr_array, size: int, seed: int) -> NDArray[np.int64]:
    """Draw rows uniformly, sorted; if none has a link, replace one by a row that has."""
    order = np.random.default_rng(seed).permutation(truth.shape[0])
    rows, linked = order[:size], np.diff(truth.indptr)[order] > 0
    if not linked[:size].any():
        rows[-1] = order[np.argmax(linked)]
    return np.sort(rows)


def entries(matrix: sparse.csr_array) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows and columns of the stored entries, in storage order."""
    at = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return torch.from_numpy(at), torch.from_numpy(matrix.indices.astype(np.int64))


def level_of_rows(level: Level, rows: NDArray[np.int64]) -> float | torch.Tensor:
    """Return the part of eta that is not g, for all pairs of some queries."""
    return torch.from_numpy(level.matrix(rows)) if isinstance(level, PairLevels) else level


def level_of_links(evaluated: EvaluatedPairs, log_scale: Level) -> float | NDArray[np.float64]:
    """Return the part of eta that is not g, for each held-out link."""
    if not isinstance(log_scale, PairLevels):
        return log_scale
    at, j = entries(evaluated.truth)
    return log_scale.at(evaluated.rows[at.numpy()], j.numpy())
