"""The layers of the built-in encoders."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pmvge.encoders.lazy_rows import LazyRows
from pmvge.graph import Features, SparseRows, column_scaling, row_scaling


class Dropout(nn.Module):
    """Dropout with a rate rounded to a multiple of 1/256.

    Each entry uses one random byte: one 64-bit draw is enough for eight entries.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.threshold = min(255, round(rate * 256)) if rate > 0 else 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x; in training, with random entries set to 0 and the others scaled up."""
        if not self.training or not self.threshold:
            return x
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        words.random_(-(2**63), None)  # all 64 bits
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * kept.to(x.dtype).mul_(256 / (256 - self.threshold))


class Affine(nn.Linear, LazyRows):
    """A linear layer that stores its weight by input column, and takes sparse rows.

    On :class:`SparseRows` the cost grows with the non-zeros, not with the number of columns.
    """

    def __init__(self, n_in: int, n_out: int, *, sparse: bool = False) -> None:
        super().__init__(n_in, n_out)
        self.weight = nn.Parameter(self.weight.detach().T.contiguous())  # (n_in, n_out)
        self.accessed_by_row = sparse

    def forward(self, x: torch.Tensor | SparseRows) -> torch.Tensor:
        """Return x W + b."""
        if isinstance(x, torch.Tensor):
            return torch.addmm(self.bias, x, self.weight)
        weight, columns = self.rows_at(x.columns)
        return product(x._replace(columns=columns), weight) + self.bias


def product(x: torch.Tensor | SparseRows, W: torch.Tensor) -> torch.Tensor:
    """Return x W; for sparse rows the cost grows with their non-zeros."""
    if isinstance(x, torch.Tensor):
        return x @ W
    return functional.embedding_bag(
        x.columns, W, x.offsets, mode="sum", per_sample_weights=x.values, include_last_offset=True
    )


class Normalize(nn.Module):
    """Compute ``x * scale + shift`` with fixed scale and shift, then apply input dropout.

    Sparse rows are scaled but not shifted: zeros stay zeros, and dropout acts on the non-zeros.
    """

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(self, n_in: int, dropout: float, sparse: bool) -> None:
        super().__init__()
        shape = () if sparse else (n_in,)
        self.register_buffer("shift", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))
        self.dropout = Dropout(dropout)

    def adapt(self, X: Features) -> None:
        """Set shift and scale from training rows.

        Dense columns are standardised. Sparse rows are scaled by one factor, to a mean squared
        norm of 1.
        """
        if isinstance(X, np.ndarray):
            scale, shift = column_scaling(X)
            self.scale.copy_(torch.from_numpy(scale))
            self.shift.copy_(torch.from_numpy(shift))
        else:
            self.scale.fill_(row_scaling(X))

    def forward(self, x: torch.Tensor | SparseRows) -> torch.Tensor | SparseRows:
        """Return the normalised rows, flattened."""
        if isinstance(x, SparseRows):
            if self.scale.ndim:  # the training rows were dense
                return self.forward(x.to_dense())
            return x._replace(values=self.dropout(x.values * self.scale))
        flat: torch.Tensor = x.flatten(1).float()
        dropped: torch.Tensor = self.dropout(torch.addcmul(self.shift, flat, self.scale))
        return dropped
