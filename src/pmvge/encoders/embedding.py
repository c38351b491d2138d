"""Encode the rows of a view in chunks of at most ``CHUNK_ROWS``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.encoders.modules import MLP
from pmvge.encoders.network import MultiViewEncoder
from pmvge.encoders.schemas import is_dense
from pmvge.errors import ParameterError
from pmvge.graph import CHUNK, Features, MultiViewGraph, row_shape, take
from pmvge.progress import OnProgress

CHUNK_ROWS = 2048  # rows encoded at once: the activations stay in the cache


def check_outputs(network: MultiViewEncoder, graph: MultiViewGraph, n_out: int) -> None:
    """Raise ParameterError unless the encoder of every view maps two rows to (2, n_out)."""
    network.eval()
    device = network.device
    for view, n in graph.sizes.items():
        where, rows = f"view {view!r}: encoder", min(2, n)
        try:
            X, first = graph.views[view], np.arange(rows)
            with torch.no_grad():
                x = torch.from_numpy(first).to(device) if X is None else take(X, first, device)
                y = network.encode(view, x)
        except Exception as error:
            raise ParameterError(
                f"{where}: failed on {rows} rows of shape {graph.input_shape(view)}: {error}"
            ) from error
        more = network.n_outputs(view) - n_out
        got = (y.shape[0], y.shape[1] - more) if y.ndim == 2 else tuple(y.shape)
        if got != (rows, n_out):
            raise ParameterError(
                f"{where}: expected an output of shape ({rows}, {n_out}), with n_components "
                f"columns, got {got}"
            )


def encode_chunks(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    positions: NDArray[np.int64] | None,
    *,
    index: NDArray[np.int64] | None = None,
    before_effects: bool = False,
    on_progress: OnProgress | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Yield the outputs of the rows of X (all, or those at ``positions``), chunk by chunk.

    A featureless view has no X; its ``positions`` are encoded. ``index`` says which training
    entities the rows are, -1 for new ones: they get their effects. Without it, all rows are new.
    ``before_effects`` gives (f, biases) of a view with effects instead, without its effects.
    """
    device = network.device
    n = _count(X, positions)
    step = _chunk_rows(X, network.encoder_of(view))
    network.eval()
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        with torch.no_grad():
            if X is None and positions is not None:
                x: Any = torch.from_numpy(positions[part]).to(device)
            else:
                assert X is not None
                x = take(X, part if positions is None else positions[part], device)
            at = None if index is None else torch.from_numpy(index[part]).to(device)
            if before_effects:
                outputs = torch.cat(network.before_effects(view, x), 1)
            else:
                outputs = network(view, x, at)
            y = outputs.float().cpu().numpy()
        if on_progress is not None:
            on_progress(part.stop, n)
        yield y


def _count(X: Features | None, positions: NDArray[np.int64] | None) -> int:
    if positions is not None:
        return len(positions)
    return 0 if X is None else int(X.shape[0])


def _chunk_rows(X: Features | None, encoder: nn.Module) -> int:
    """Return the number of rows to encode at once: fewer if they are wide, such as images."""
    if X is None or (not is_dense(X) and isinstance(encoder, MLP)):  # no dense input
        return CHUNK_ROWS
    return max(1, min(CHUNK_ROWS, CHUNK // math.prod(row_shape(X))))


def embed_rows(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    positions: NDArray[np.int64] | None,
    n_out: int,
    *,
    index: NDArray[np.int64] | None = None,
    before_effects: bool = False,
    on_progress: OnProgress | None = None,
) -> NDArray[np.float32]:
    """Return the outputs of :func:`encode_chunks` in one array: vectors (n, K), and biases."""
    Y = np.empty((0, n_out + network.n_biases(view)), np.float32)
    start = 0
    for part in encode_chunks(
        network,
        view,
        X,
        positions,
        index=index,
        before_effects=before_effects,
        on_progress=on_progress,
    ):
        if not start:
            Y = np.empty((_count(X, positions), part.shape[1]), np.float32)
        rows = torch.from_numpy(Y[start : start + len(part)])
        rows.copy_(torch.from_numpy(part))  # torch copies with all cores
        start += len(part)
    return Y
