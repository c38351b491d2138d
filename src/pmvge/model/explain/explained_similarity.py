"""Split the similarity of two entities by their features and effects."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.encoders import MLP, Zero
from pmvge.graph import Features, SparseRows, take
from pmvge.model.embedding import encode_entities
from pmvge.model.explain.explained_entity import ExplainedEntity
from pmvge.model.explain.explanation import Part
from pmvge.model.explain.integrated_gradients import Attribution, Side, integrated_gradients
from pmvge.model.fitted import Fitted
from pmvge.similarities import Similarity
from pmvge.tables import row_parts

SideName = Literal["entity", "partner"]
FAILURES = (RuntimeError, IndexError, TypeError, ValueError)  # of user-defined modules
SAME = 1e-3  # largest difference of two vectors, relative to their size, that count as one


@dataclass(frozen=True, eq=False)
class SplitSide:
    """One side of the pair: the path of its inputs, and what each input is."""

    found: ExplainedEntity
    side: Side
    inputs: tuple[str, ...]  # "row", or a name that is one part
    columns: NDArray[np.int64] | None = None  # of the non-zeros, where "row" is sparse


def split_similarity(
    fitted: Fitted, left: ExplainedEntity, right: ExplainedEntity, biases: float
) -> tuple[Attribution, tuple[SplitSide, SplitSide]]:
    """Return the integrated gradients of the similarity s(y, y') of two entities.

    ``biases`` is the sum of their biases. Where features cannot be split, because they are not
    known or have no gradients, they are one part.
    """
    similarity = copy.deepcopy(fitted.similarity).cpu().double().requires_grad_(False)

    def compare(y: torch.Tensor, y_other: torch.Tensor) -> torch.Tensor:
        product = (similarity.query(y) * similarity.candidate(y_other)).sum(1)
        return product if similarity.linear else similarity.outer(product + biases) - biases

    fitted.network.eval()
    sides = (_split(fitted, left, similarity), _split(fitted, right, similarity))
    try:
        return integrated_gradients((sides[0].side, sides[1].side), compare), sides
    except FAILURES:  # the encoder has no gradients
        first, second = (
            _whole(fitted, part.found, similarity) if "row" in part.inputs else part
            for part in sides
        )
        sides = (first, second)
    return integrated_gradients((sides[0].side, sides[1].side), compare), sides


def named_parts(
    fitted: Fitted, split: SplitSide, values: list[torch.Tensor], name: SideName
) -> Iterator[Part]:
    """Yield the parts of one side: features by column, effects as a whole."""
    view = split.found.view
    for kind, value in zip(split.inputs, values, strict=True):
        if kind != "row":
            label: Any = "feature" if "features" in kind else "effects"
            called = split.found.effects_name if kind == "effects" else kind
            yield Part(called, name, view, label, float(value.sum()))
            continue
        for column, amount in _by_column(fitted, split, value.numpy()):
            yield Part(column, name, view, "feature", amount)


def _by_column(
    fitted: Fitted, split: SplitSide, values: NDArray[np.float64]
) -> Iterator[tuple[str, float]]:
    """Yield the columns of a row and their parts; columns and values of a raw table by name."""
    row: Any = split.found.row
    shape = fitted.schema_of(split.found.view).row_shape
    dense = np.asarray(row[0] if isinstance(row, np.ndarray) else row.toarray()[0])
    flat = values.ravel()
    if split.columns is not None:
        flat = np.zeros(dense.size)
        flat[split.columns] = values
    named = row_parts(fitted.tables, split.found.view, dense.ravel())
    if named is not None:
        for part in named:
            amount = float(flat[part.at].sum())
            if amount or not part.absent:
                yield part.name, amount
        return
    for at in range(flat.size) if split.columns is None else split.columns.tolist():
        index = np.unravel_index(at, shape or ())
        label = int(index[0]) if len(index) == 1 else tuple(map(int, index))
        yield f"column {label}", float(flat[at])


def _split(fitted: Fitted, found: ExplainedEntity, similarity: Similarity) -> SplitSide:
    """Return the path of an entity over its columns and effects, as far as they are known."""
    encoder = fitted.network.encoder_of(found.view)
    e = None if found.e is None else torch.from_numpy(found.e)
    if isinstance(encoder, Zero):
        assert e is not None
        side = Side((torch.zeros_like(e),), (e,), similarity.from_effects)
        return SplitSide(found, side, ("effects",))
    if found.row is None:
        return _whole(fitted, found, similarity)
    x, columns, as_input = _row_input(found.row, fitted.schema_of(found.view).sparse, fitted)
    if not x.is_floating_point():  # tokens
        return _whole(fitted, found, similarity)
    start = torch.zeros_like(x) if columns is not None else _mean_row(encoder, x)

    def vectors(x: torch.Tensor, e: torch.Tensor | None = None) -> torch.Tensor:
        f = fitted.network.encode(found.view, as_input(x))[:, : fitted.n_components]
        f = f.cpu().double()
        y: torch.Tensor = similarity(f) if e is None else similarity(f, e)
        return y

    side = Side((start,), (x,), vectors)
    if e is None:
        return SplitSide(found, side, ("row",), columns)
    side = replace(side, start=(start, torch.zeros_like(e)), end=(x, e))
    return SplitSide(found, side, ("row", "effects"), columns)


def _row_input(
    row: Features, sparse: bool, fitted: Fitted
) -> tuple[torch.Tensor, NDArray[np.int64] | None, Any]:
    """Return the input of a row, the columns of its non-zeros if it is sparse, and its encoding.

    The third value turns inputs (S, ...) into rows that an encoder takes.
    """
    taken: Any = take(row, slice(0, 1), fitted.network.device)
    if isinstance(taken, SparseRows) and not sparse:
        taken = taken.to_dense()
    if not isinstance(taken, SparseRows):
        return taken[0], None, lambda x: x
    columns, width = taken.columns, taken.shape[1]

    def as_rows(values: torch.Tensor) -> SparseRows:
        n, count = values.shape
        offsets = torch.arange(n + 1, device=values.device) * count
        return SparseRows(columns.repeat(n), offsets, values.flatten(), (n, width))

    return taken.values, columns.cpu().numpy(), as_rows


def _mean_row(encoder: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return the row that standardisation maps to 0; zeros without standardisation."""
    if not isinstance(encoder, MLP) or not encoder.input.scale.ndim:
        return torch.zeros_like(x)
    scale, shift = encoder.input.scale, encoder.input.shift
    mean = torch.where(scale != 0, -shift / scale, x.flatten())  # a constant column adds nothing
    return mean.view(x.shape).to(x.dtype)


def _whole(fitted: Fitted, found: ExplainedEntity, similarity: Similarity) -> SplitSide:
    """Return the path of an entity whose features are one input."""
    view, K = found.view, fitted.n_components
    y = torch.tensor(found.outputs[:K], dtype=torch.float64)
    if fitted.schema_of(view).row_shape is None:
        return SplitSide(found, Side((torch.zeros_like(y),), (y,), lambda y: y), ("vector",))
    start = _baseline_vector(fitted, view)
    if found.e is None:
        return SplitSide(found, Side((start,), (y,), lambda y: y), ("features",))
    e = torch.from_numpy(found.e)
    if found.row is None:
        plain = fitted.plain[view][found.position]
    else:
        plain = encode_entities(fitted, view, found.row, np.array([-1])).outputs[0]
    p = torch.tensor(plain[:K], dtype=torch.float64)  # the vector without effects, in place of f
    error = float((similarity(p[None], e[None])[0] - y).abs().max())
    if not error <= SAME * float(y.abs().max()):  # similarity(similarity(f), e) differs
        return SplitSide(found, Side((start,), (y,), lambda y: y), ("features and effects",))
    side = Side((start, torch.zeros_like(e)), (p, e), similarity)
    return SplitSide(found, side, ("features", "effects"))


def _baseline_vector(fitted: Fitted, view: str) -> torch.Tensor:
    """Return the vector of the baseline row; the mean vector if the encoder takes no such row."""
    K, schema = fitted.n_components, fitted.schema_of(view)
    encoder, device = fitted.network.encoder_of(view), fitted.network.device
    assert schema.row_shape is not None
    zeros = torch.zeros(schema.row_shape, device=device)
    try:
        with torch.no_grad():
            f = fitted.network.encode(view, _mean_row(encoder, zeros)[None])[:, :K]
            y: torch.Tensor = fitted.similarity(f)[0]
        return y.cpu().double()
    except FAILURES:
        known = fitted.plain.get(view, fitted.outputs[view])
        return torch.from_numpy(known[:, :K].mean(0, dtype=np.float64))
