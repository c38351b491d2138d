"""Embed rows with a fitted model: in memory, or to a file in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.encoders import embed_rows
from pmvge.errors import InputError
from pmvge.graph import CHUNK, MultiViewGraph, check_rows, trained_positions
from pmvge.model.fitted import Fitted
from pmvge.progress import OnProgress, progress_bar
from pmvge.search import embed_in_batches, save_atomically


def embed(
    fitted: Fitted,
    view: str,
    X: Any,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> NDArray[np.float32]:
    """Return the vectors (n, K) of rows of features, or of ids for a featureless view.

    ``first`` is the position of the first row of X, for error messages. Raise InputError if rows or
    ids are not valid, and NotInductive for ids that were not in training.
    """
    shape = fitted.schemas[view].row_shape
    if shape is None:
        return fitted.embeddings[view][trained_positions(view, fitted.ids[view], X)]
    rows = check_rows(view, X, shape, first=first)
    try:
        return embed_rows(
            fitted.network, view, rows, None, fitted.n_components, on_progress=on_progress
        )
    except (RuntimeError, IndexError, TypeError, ValueError) as error:  # from a user-defined module
        raise InputError(f"view {view!r}: its encoder failed on these rows: {error}") from error


def embed_to_file(
    fitted: Fitted, path: Path, view: str, X: Any, ids: Any, *, show_progress: bool
) -> int:
    """Write ids and vectors to a Parquet file in chunks; return the number of rows.

    Raise InputError if rows or ids are not valid, and StorageError if the file cannot be written.
    """
    schema, K = fitted.schema_of(view), fitted.n_components
    shape = schema.row_shape
    if shape is None:  # X holds ids, which are written as they are
        chunks = X if isinstance(X, Iterator) else [(X, None)]
        X = (chunk if isinstance(chunk, tuple) else (chunk, None) for chunk in chunks)
    width = K if shape is None or schema.sparse else max(K, math.prod(shape))
    with progress_bar(f"embedding {view}", show_progress) as on_progress:
        parts = embed_in_batches(
            f"view {view!r}",
            X,
            ids,
            partial(embed, fitted, view),
            max(1, CHUNK // width),
            on_progress=on_progress,
        )
        return save_atomically(path, parts)


def rows_or_ids(fitted: Fitted, view: str, graph: MultiViewGraph) -> Any:
    """Return what :func:`embed` takes for all entities of a view: features, or ids.

    Raise InputError if the view has features in the graph but had none in training, or vice versa.
    """
    X = graph.views[view]
    featureless = fitted.schema_of(view).row_shape is None
    if featureless != (X is None):
        raise InputError(
            f"view {view!r}: {'has' if featureless else 'has no'} features in this graph, "
            f"but {'had none' if featureless else 'had'} in training"
        )
    return graph.ids[view] if X is None else X
