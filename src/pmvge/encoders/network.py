"""The encoders of all views in one module."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pmvge.encoders.choices import Choice
from pmvge.encoders.modules import MLP, Identity, build_encoder
from pmvge.encoders.schemas import ViewSchema
from pmvge.encoders.specs import EncoderSpec
from pmvge.errors import ParameterError, choose
from pmvge.graph import MultiViewGraph, SparseRows
from pmvge.similarities import Similarity, build_similarity


class MultiViewEncoder(nn.Module):
    r"""The encoders of all views and the similarity: maps (view, rows) to vectors :math:`y`.

    ``family`` is the likelihood family, whose parameters are learned with the weights.
    """

    def __init__(
        self,
        choices: Mapping[str, Choice],
        schemas: Mapping[str, ViewSchema],
        n_out: int,
        similarity: str,
        family: nn.Module | None = None,
    ) -> None:
        super().__init__()
        # Modules that were passed in stay unchanged. One deep copy of all keeps what they share.
        modules = copy.deepcopy({v: c for v, c in choices.items() if isinstance(c, nn.Module)})
        self._position: dict[str, int] = {}  # a view's name may contain a dot, a module's may not
        self.encoders = nn.ModuleList()
        for view in sorted(choices, key=lambda v: _owner(v, choices) != v):  # owners first
            owner = _check_owner(view, choices, schemas)
            if owner != view:
                self._position[view] = self._position[owner]
                continue
            choice, schema = choices[view], schemas[view]
            if isinstance(choice, EncoderSpec):
                encoder = build_encoder(
                    f"view {view!r}: encoder",
                    choice,
                    n_rows=schema.n,
                    row_shape=schema.row_shape,
                    sparse=schema.sparse,
                    n_out=n_out,
                )
            else:
                encoder = modules[view]
            self._position[view] = len(self.encoders)
            self.encoders.append(encoder)
        self.similarity: Similarity = build_similarity(similarity)
        self.family: Any = family  # a likelihoods.Family: a layer above this one

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views."""
        return tuple(self._position)

    def encoder_of(self, view: str) -> nn.Module:
        """Return the encoder of a view."""
        return self.encoders[self._position[view]]

    def forward(self, view: str, x: Any) -> torch.Tensor:
        """Return the vectors (n, K) of rows (n, ...), or of positions in a featureless view."""
        encoder = self.encoder_of(view)
        if isinstance(x, SparseRows) and not isinstance(encoder, MLP | Identity):
            x = x.to_dense()  # user-defined modules take dense rows, one batch at a time
        f = encoder(x)
        if f.dtype is torch.bfloat16:  # low precision is for the encoder's products only
            f = f.float()
        y: torch.Tensor = self.similarity(f)
        return y


def _owner(view: str, choices: Mapping[str, Choice]) -> str:
    """Return the view whose encoder this view uses: itself, unless it shares."""
    choice = choices[view]
    if isinstance(choice, EncoderSpec):
        return choice.shared_with or view
    return min(v for v, other in choices.items() if other is choice)


def _check_owner(
    view: str, choices: Mapping[str, Choice], schemas: Mapping[str, ViewSchema]
) -> str:
    """Return the owner of a view's encoder; raise ParameterError if it cannot be shared."""
    owner = _owner(view, choices)
    choice = choices[view]
    if isinstance(choice, nn.Module) or choice.shared_with is None:
        return owner
    where = f"view {view!r}: shared_with"
    if owner == view:
        raise ParameterError(f"{where}: a view cannot share with itself; name another view")
    choose("view", owner, choices, where)
    if _owner(owner, choices) != owner:
        raise ParameterError(
            f"{where}: {owner!r} has no encoder of its own, it shares one too; "
            f"use shared_with={_owner(owner, choices)!r}"
        )
    expected, got = ((schemas[v].row_shape, schemas[v].sparse) for v in (owner, view))
    if got != expected or not got[0]:
        raise ParameterError(
            f"{where}: expected rows like those of {owner!r} ({expected[0]}, "
            f"sparse={expected[1]}), got ({got[0]}, sparse={got[1]})"
        )
    return owner


def set_input_scale(
    network: MultiViewEncoder, graph: MultiViewGraph, choices: Mapping[str, Choice]
) -> None:
    """Set the input shift and scale of the built-in encoders from the rows of a graph."""
    for view, choice in choices.items():
        encoder, X = network.encoder_of(view), graph.views[view]
        if not isinstance(choice, EncoderSpec) or choice.shared_with or not choice.standardize:
            continue
        if isinstance(encoder, MLP) and X is not None:
            encoder.input.adapt(X)
