r"""The maps :math:`f^{(d)}` from data vectors to the shared space, one per view.

``mlp``, ``linear``, ``lookup`` (featureless views), ``identity`` (fixed), or any ``nn.Module``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pmvge.errors import ParameterError, choose
from pmvge.features import Features, SparseRows, column_scaling, row_scaling

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
}
KINDS = ("mlp", "linear", "lookup", "identity")


@dataclass(frozen=True)
class EncoderSpec:
    """How to build a view's encoder. What is None is taken from the estimator's settings.

    Parameters
    ----------
    kind
        "mlp", "linear", "lookup" or "identity".
    hidden_sizes, activation, output_activation, batch_norm, dropout, input_dropout, standardize
        As in :class:`pmvge.PMvGE`, for this view only.
    shared_with
        Name of a view of the same dimension whose encoder this view uses; then nothing else counts.
    """

    kind: str | None = None
    hidden_sizes: tuple[int, ...] | None = None
    activation: str | None = None
    output_activation: str | None = None
    batch_norm: bool | None = None
    dropout: float | None = None
    input_dropout: float | None = None
    standardize: bool | None = None
    shared_with: str | None = None

    def or_else(self, defaults: EncoderSpec) -> EncoderSpec:
        """This spec with its gaps filled from ``defaults``."""
        gaps = [f.name for f in fields(self) if getattr(self, f.name) is None]
        return replace(self, **{name: getattr(defaults, name) for name in gaps})

    def check(self, where: str) -> None:
        """Raise ParameterError for a value that no encoder can have."""
        choose("encoder", self.kind, KINDS, where)
        choose("activation", self.activation, ACTIVATIONS, where)
        choose("output_activation", self.output_activation, ACTIVATIONS, where)
        sizes = () if self.hidden_sizes is None else self.hidden_sizes
        if not isinstance(sizes, tuple | list) or not all(map(_is_size, sizes)):
            raise ParameterError(
                f"{where}: hidden_sizes must be positive integers, got {self.hidden_sizes!r}"
            )
        for name in ("batch_norm", "standardize"):
            if not isinstance(getattr(self, name), bool | np.bool_ | None):
                raise ParameterError(
                    f"{where}: {name} must be True or False, got {getattr(self, name)!r}"
                )
        for name in ("dropout", "input_dropout"):
            rate = getattr(self, name)
            if not isinstance(rate, Real) or not 0 <= float(rate) < 1:
                raise ParameterError(f"{where}: {name} must lie in [0, 1), got {rate!r}")


def _is_size(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


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


class MLP(nn.Module):
    r""":math:`f(x) = \sigma_o(\psi_L^\top \sigma(\dots \sigma(\psi_1^\top x)))`, with biases.

    Batch normalisation stands between a hidden layer's product and its activation, dropout after.
    Without hidden layers this is the linear model.
    """

    def __init__(self, n_in: int, n_out: int, spec: EncoderSpec, *, sparse: bool) -> None:
        super().__init__()
        activation = ACTIVATIONS[str(spec.activation)]
        self.input = Normalize(n_in, float(spec.input_dropout or 0), sparse)
        layers: list[nn.Module] = []
        width = n_in
        for size in spec.hidden_sizes or ():
            layers.append(Affine(width, int(size), sparse=sparse and not layers))
            if spec.batch_norm:
                layers.append(nn.BatchNorm1d(int(size)))
            layers.append(activation())
            if spec.dropout:
                layers.append(Dropout(spec.dropout))
            width = int(size)
        layers.append(Affine(width, n_out, sparse=sparse and not layers))
        if spec.output_activation != "identity":
            layers.append(ACTIVATIONS[str(spec.output_activation)]())
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor | SparseRows) -> torch.Tensor:
        """Encode rows: (n, ...) to (n, K)."""
        y: torch.Tensor = self.layers(self.input(x))
        return y


class Lookup(nn.Embedding, RowTable):
    """One free vector per node, for a featureless view: :math:`f(e_i) = \\psi_i`."""

    by_rows = True

    def __init__(self, n: int, n_out: int) -> None:
        super().__init__(n, n_out)
        nn.init.normal_(self.weight, std=0.01)  # small: a few steps turn a vector where it belongs

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """Return the vectors of nodes."""
        table, place = self.table(index)
        return functional.embedding(place, table)


class Identity(nn.Module):
    """The data vectors themselves, fixed."""

    def forward(self, x: torch.Tensor | SparseRows) -> torch.Tensor:
        """Return the rows as they are."""
        return x.to_dense() if isinstance(x, SparseRows) else x.flatten(1).float()


def build_encoder(
    where: str,
    spec: EncoderSpec,
    *,
    n_rows: int,
    row_shape: tuple[int, ...] | None,
    sparse: bool,
    n_out: int,
) -> nn.Module:
    """Build a view's encoder from a spec without gaps."""
    spec.check(where)
    if row_shape is None or spec.kind == "lookup":
        if row_shape is not None:
            raise ParameterError(
                f"{where}: 'lookup' is for featureless views, this one has features"
            )
        if spec.kind != "lookup":
            raise ParameterError(
                f"{where}: a featureless view takes the encoder 'lookup', got {spec.kind!r}"
            )
        return Lookup(n_rows, n_out)
    n_in = int(torch.Size(row_shape).numel())
    if spec.kind == "identity":
        if n_in != n_out:
            raise ParameterError(
                f"{where}: 'identity' keeps the {n_in} columns, but n_components is {n_out}"
            )
        return Identity()
    if spec.kind == "linear":
        spec = replace(spec, hidden_sizes=(), output_activation="identity")
    return MLP(n_in, n_out, spec, sparse=sparse)


def batch_norms(encoder: nn.Module) -> list[nn.Module]:
    """The batch normalisation layers inside, which cannot train on a single row."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    return [module for module in encoder.modules() if isinstance(module, kinds)]
