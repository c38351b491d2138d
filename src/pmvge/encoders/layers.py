"""The layers that encoders are built from."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pmvge.encoders.row_table import RowTable
from pmvge.graph import Features, SparseRows, column_scaling, row_scaling


class Dropout(nn.Module):
    """Dropout with its rate rounded to 1/256, which needs fewer draws than one a number.

    A random byte decides over each entry, eight of them from one draw.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.threshold = min(255, round(rate * 256)) if rate > 0 else 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x with entries zeroed at random, and the others scaled up, in training."""
        if not self.training or not self.threshold:
            return x
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        words.random_(-(2**63), None)  # all 64 bits
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * kept.to(x.dtype).mul_(256 / (256 - self.threshold))


class Affine(nn.Linear, RowTable):
    """A linear layer whose weight is stored by input column, so that sparse rows go in directly.

    On :class:`SparseRows` the cost is that of the non-zeros, whatever the number of columns.
    """

    def __init__(self, n_in: int, n_out: int, *, sparse: bool = False) -> None:
        super().__init__(n_in, n_out)
        self.weight = nn.Parameter(self.weight.detach().T.contiguous())  # (n_in, n_out)
        self.by_rows = sparse

    def forward(self, x: torch.Tensor | SparseRows) -> torch.Tensor:
        """Return x W + b."""
        if isinstance(x, torch.Tensor):
            return torch.addmm(self.bias, x, self.weight)
        table, columns = self.table(x.columns)
        return product(x._replace(columns=columns), table) + self.bias


def product(x: torch.Tensor | SparseRows, W: torch.Tensor) -> torch.Tensor:
    """Return x W for dense rows, or for sparse ones at the cost of their non-zeros."""
    if isinstance(x, torch.Tensor):
        return x @ W
    return functional.embedding_bag(
        x.columns, W, x.offsets, mode="sum", per_sample_weights=x.values, include_last_offset=True
    )


class Normalize(nn.Module):
    """``x * scale + shift``, fixed before training, then dropout on the input.

    Sparse rows are scaled but not shifted: zeros stay zeros, and dropout acts on the others.
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
        """Take shift and scale from training rows.

        Dense columns are standardised; sparse rows scaled together to a mean square norm of 1.
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
            if self.scale.ndim:  # dense in training, sparse now
                return self.forward(x.to_dense())
            return x._replace(values=self.dropout(x.values * self.scale))
        flat: torch.Tensor = x.flatten(1).float()
        dropped: torch.Tensor = self.dropout(torch.addcmul(self.shift, flat, self.scale))
        return dropped
