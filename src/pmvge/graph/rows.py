"""Gathering rows of a view as tensors."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph.features import Features

RowIndex: TypeAlias = NDArray[np.int64] | slice


class SparseRows(NamedTuple):
    """Rows of a CSR matrix as torch tensors, in the layout of ``embedding_bag``."""

    columns: torch.Tensor  # (nnz,) int64
    offsets: torch.Tensor  # (rows + 1,) int64
    values: torch.Tensor  # (nnz,) float32
    shape: tuple[int, int]

    def to_dense(self) -> torch.Tensor:
        """Return the rows as a dense (rows, p) tensor."""
        dense = self.values.new_zeros(self.shape)
        counts = self.offsets.diff()
        row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        dense[row, self.columns] = self.values
        return dense


def take(X: Features, rows: RowIndex, device: torch.device) -> torch.Tensor | SparseRows:
    """Return rows of X as a tensor on ``device``.

    Integers become int64 (tokens for an embedding layer). Everything else becomes float32,
    including uint8, which is more often an image than tokens.
    """
    part = X[rows]
    if isinstance(part, np.ndarray):
        tokens = part.dtype.kind in "iu" and part.dtype != np.uint8
        half = part.dtype == np.float16
        dtype = np.int64 if tokens else np.float16 if half else np.float32
        dense = np.ascontiguousarray(part, dtype=dtype)
        if not dense.flags.writeable:  # torch.from_numpy needs a writable array
            dense = dense.copy()
        gathered = torch.from_numpy(dense).to(device)
        return gathered.float() if half else gathered  # torch converts float16 faster than numpy
    return SparseRows(
        torch.from_numpy(part.indices.astype(np.int64)).to(device),
        torch.from_numpy(part.indptr.astype(np.int64)).to(device),
        torch.from_numpy(part.data.astype(np.float32)).to(device),
        (int(part.shape[0]), int(part.shape[1])),
    )
