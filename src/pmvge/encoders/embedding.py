"""Encode the rows of a whole view, a few thousand at a time."""

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

ROWS = 2048  # rows encoded at once when a whole view is embedded: they stay in the cache
IN_PLACE = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_, nn.Sigmoid: torch.sigmoid_}


def check_outputs(network: MultiViewEncoder, graph: MultiViewGraph, n_out: int) -> None:
    """Encode two rows of every view: modules of the user's must put out (rows, K)."""
    network.eval()
    for view, n in graph.sizes.items():
        where, rows = f"view {view!r}: encoder", min(2, n)
        try:
            y = next(encode_chunks(network, view, graph.views[view], np.arange(rows)))
        except Exception as error:
            raise ParameterError(
                f"{where}: failed on {rows} rows of shape {graph.input_shape(view)}: {error}"
            ) from error
        if y.shape != (rows, n_out):
            raise ParameterError(
                f"{where}: expected an output of shape ({rows}, {n_out}), n_components wide, "
                f"got {tuple(y.shape)}"
            )


def encode_chunks(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    positions: NDArray[np.int64] | None,
    *,
    on_progress: OnProgress | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Embeddings of rows of X (all, or at ``positions``), a few thousand rows at a time.

    A featureless view has no X: its ``positions`` are what is embedded.
    """
    device = next(network.parameters(), torch.empty(0)).device
    n = _count(X, positions)
    step = _chunk_rows(X, network.of(view))
    network.eval()
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        with torch.no_grad():
            if X is None and positions is not None:
                x: Any = torch.from_numpy(positions[part]).to(device)
            else:
                assert X is not None
                x = take(X, part if positions is None else positions[part], device)
            y = _encode(network, view, x).float().cpu().numpy()
        if on_progress is not None:
            on_progress(part.stop, n)
        yield y


def _encode(network: MultiViewEncoder, view: str, x: Any) -> torch.Tensor:
    """``network(view, x)`` without gradients; the activations of a built-in encoder in place.

    Memory for a second copy of its widest layer would take longer than the activation itself.
    """
    y: torch.Tensor
    if isinstance(encoder := network.of(view), MLP):
        y = encoder.input(x)
        for layer in encoder.layers:
            y = IN_PLACE.get(type(layer), layer)(y)
        y = network.similarity.in_place(y)
    else:
        y = network(view, x)
    return y


def _count(X: Features | None, positions: NDArray[np.int64] | None) -> int:
    if positions is not None:
        return len(positions)
    return 0 if X is None else int(X.shape[0])


def _chunk_rows(X: Features | None, encoder: nn.Module) -> int:
    """How many rows to encode at once: fewer if they are wide, such as images."""
    if X is None or (not is_dense(X) and isinstance(encoder, MLP)):  # nothing wide is made
        return ROWS
    return max(1, min(ROWS, CHUNK // math.prod(row_shape(X))))


def embed_rows(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    positions: NDArray[np.int64] | None,
    n_out: int,
    *,
    on_progress: OnProgress | None = None,
) -> NDArray[np.float32]:
    """The embeddings of :func:`encode_chunks` in one array (n, K)."""
    Y = np.empty((0, n_out), np.float32)
    start = 0
    for part in encode_chunks(network, view, X, positions, on_progress=on_progress):
        if not start:
            Y = np.empty((_count(X, positions), part.shape[1]), np.float32)
        rows = torch.from_numpy(Y[start : start + len(part)])
        rows.copy_(torch.from_numpy(part))  # by torch: all cores
        start += len(part)
    return Y
