"""Indexes of candidate vectors: one contract, exact or approximate."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.progress import OnProgress
from pmvge.search.exact import top_k

Found = tuple[NDArray[np.int64], NDArray[np.float32]]  # positions and inner products, (n, k)


class VectorIndex(ABC):
    """Candidate vectors (m, Q) that can be searched for the largest inner products."""

    kind: ClassVar[str]

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = np.asarray(vectors, np.float32, order="C")

    def __len__(self) -> int:
        return len(self.vectors)

    @abstractmethod
    def top_k(
        self,
        queries: NDArray[Any],
        k: int,
        exclude: sparse.csr_array | None = None,
        *,
        allowed: NDArray[np.bool_] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Found:
        """Return positions and inner products, as :func:`pmvge.search.top_k` does.

        Inner products are exact. An approximate index may miss candidates, but returns none that
        is excluded or not allowed.
        """

    def checksum(self) -> str:
        """Return the SHA-256 of the vectors and their shape."""
        digest = hashlib.sha256(str(self.vectors.shape).encode())
        digest.update(self.vectors.data)
        return digest.hexdigest()


class ExactIndex(VectorIndex):
    """All candidates are compared with every query."""

    kind: ClassVar[str] = "exact"

    def top_k(
        self,
        queries: NDArray[Any],
        k: int,
        exclude: sparse.csr_array | None = None,
        *,
        allowed: NDArray[np.bool_] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Found:
        """Return the exact answer; few allowed candidates are compared apart from the others."""
        if allowed is None or 2 * np.count_nonzero(allowed) > len(self):
            return top_k(
                queries, self.vectors, k, exclude, allowed=allowed, on_progress=on_progress
            )
        at = np.flatnonzero(allowed)
        few = None if exclude is None else sparse.csr_array(exclude)[:, at]
        positions, g = top_k(queries, self.vectors[at], k, few, on_progress=on_progress)
        missing = min(k, len(self)) - positions.shape[1]
        positions = np.where(positions < 0, -1, at[positions] if len(at) else -1)
        return (
            np.pad(positions, ((0, 0), (0, missing)), constant_values=-1),
            np.pad(g, ((0, 0), (0, missing)), constant_values=-np.inf),
        )
