r"""The maps :math:`f^{(d)}` from features to vectors, one per view.

``mlp``, ``linear``, ``lookup`` (featureless views), ``identity`` (fixed), or any ``nn.Module``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from pmvge.encoders.layers import Affine, Dropout, Normalize
from pmvge.encoders.lazy_rows import LazyRows
from pmvge.encoders.specs import ACTIVATIONS, EncoderSpec
from pmvge.errors import ParameterError
from pmvge.graph import SparseRows

IN_PLACE: dict[type[nn.Module], Callable[[torch.Tensor], torch.Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
    nn.Sigmoid: torch.sigmoid_,
}


class MLP(nn.Module):
    r""":math:`f(x) = \sigma_o(\psi_L^\top \sigma(\dots \sigma(\psi_1^\top x)))`, with biases.

    Each hidden layer applies, in this order, the product, batch normalisation, the activation and
    dropout. Without hidden layers this is the linear model.
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
        """Encode rows: (n, ...) to (n, K).

        Without gradients, activations are computed in place: they act on the new tensor of a
        product, and allocating another one would take longer than the activation.
        """
        in_place = {} if torch.is_grad_enabled() else IN_PLACE
        y: torch.Tensor = self.input(x)
        for layer in self.layers:
            y = in_place.get(type(layer), layer)(y)
        return y


class Lookup(nn.Embedding, LazyRows):
    """One free vector per entity of a featureless view: :math:`f(e_i) = \\psi_i`."""

    accessed_by_row = True

    def __init__(self, n: int, n_out: int) -> None:
        super().__init__(n, n_out)
        nn.init.normal_(self.weight, std=0.01)  # small: few steps can change its direction

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """Return the vectors of the entities at positions ``index``."""
        weight, position = self.rows_at(index)
        return functional.embedding(position, weight)


class Identity(nn.Module):
    """The features as vectors, without parameters."""

    def forward(self, x: torch.Tensor | SparseRows) -> torch.Tensor:
        """Return the rows, flattened and dense."""
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
    """Build a view's encoder from a complete spec.

    Raise ParameterError if a value is not valid, or if the encoder does not fit the view's rows.
    """
    spec.check(where)
    if row_shape is None or spec.kind == "lookup":
        if row_shape is not None:
            raise ParameterError(
                f"{where}: 'lookup' is for featureless views, but this one has features; "
                "use 'mlp', 'linear' or 'identity'"
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
                f"{where}: 'identity' keeps the {n_in} columns, but n_components is {n_out}; "
                f"use 'linear', or n_components={n_in}"
            )
        return Identity()
    if spec.kind == "linear":
        spec = replace(spec, hidden_sizes=(), output_activation="identity")
    return MLP(n_in, n_out, spec, sparse=sparse)


def batch_norms(encoder: nn.Module) -> list[nn.Module]:
    """Return the batch normalisation layers of an encoder, which cannot train on one row."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    return [module for module in encoder.modules() if isinstance(module, kinds)]
