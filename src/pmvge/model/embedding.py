"""Vectors of known and new entities: in memory, or to a file in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.encoders import embed_rows
from pmvge.errors import InputError
from pmvge.graph import (
    CHUNK,
    Features,
    MultiViewGraph,
    as_input_ids,
    check_rows,
)
from pmvge.model.fitted import Fitted
from pmvge.model.fold_in.first_links import FirstLinks
from pmvge.progress import OnProgress, progress_bar
from pmvge.search import embed_in_batches, save_atomically

# Largest difference of the outputs of equal rows, relative to the largest output: rounding alone.
SAME_ROWS = 1e-4


class Entities(NamedTuple):
    """Entities of a view: their outputs, and which training entities they are."""

    outputs: NDArray[np.float32]  # (n, K + P): vectors and biases
    positions: NDArray[np.int64]  # (n,) of the training entities; -1 for new entities
    first_links: FirstLinks = MappingProxyType({})  # of new entities
    # (n,) entities whose level was fitted to their first links; None: no entity
    has_level: NDArray[np.bool_] | None = None
    # (n, effects) from first links, 0 without; None: no links were given, or they change nothing
    effects: NDArray[np.float32] | None = None

    @property
    def new(self) -> NDArray[np.bool_]:
        """Which entities have expected weights that calibration applies to, (n,).

        Entities with a level of their own are compared with known ones as known entities are.
        """
        new = self.positions < 0
        return new if self.has_level is None else new & ~self.has_level


def find_entities(
    fitted: Fitted,
    view: str,
    X: Any,
    ids: Any,
    *,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> Entities:
    """Return entities given by features, by ids, or by both; all training entities if by neither.

    With features alone all entities are new. With ids alone all are training entities. With both, a
    row whose id was given in training is a known entity; default ids identify none. In a
    featureless view X holds ids. ``first`` is the position of the first row of X, for error
    messages. Raise InputError if rows or ids are not valid, and NotInductive for unknown ids
    without features.
    """
    shape, known = fitted.schema_of(view).row_shape, fitted.ids[view]
    if shape is None and X is not None:
        if ids is not None:
            raise InputError(f"view {view!r} has no features: expected ids alone, got X and ids")
        return _trained(fitted, view, fitted.known_positions(view, X))
    if X is None and ids is None:
        return Entities(fitted.outputs[view], np.arange(len(known)))  # no copy
    if X is None:
        return _trained(fitted, view, fitted.known_positions(view, ids))
    assert shape is not None
    rows = check_rows(view, X, shape, first=first)
    positions = np.full(rows.shape[0], -1, np.int64)
    if ids is not None:
        given = as_input_ids(f"view {view!r}: ids", ids)
        if len(given) != len(positions):
            raise InputError(
                f"view {view!r}: expected {len(positions)} ids, one per row, got {len(given)}"
            )
        if view in fitted.given_ids:
            positions = fitted.positions_of(view, given)
    return encode_entities(fitted, view, rows, positions, on_progress=on_progress)


def encode_entities(
    fitted: Fitted,
    view: str,
    rows: Features,
    positions: NDArray[np.int64],
    *,
    on_progress: OnProgress | None = None,
) -> Entities:
    """Return entities with checked rows of features, and the effects of those at ``positions``.

    Raise InputError if a user-defined encoder fails on the rows.
    """
    try:
        outputs = embed_rows(
            fitted.network,
            view,
            rows,
            None,
            fitted.n_components,
            index=positions if fitted.effects[view] != "none" else None,
            on_progress=on_progress,
        )
    except (RuntimeError, IndexError, TypeError, ValueError) as error:  # from a user-defined module
        raise InputError(f"view {view!r}: its encoder failed on these rows: {error}") from error
    return Entities(outputs, positions)


def _trained(fitted: Fitted, view: str, positions: NDArray[np.int64]) -> Entities:
    return Entities(fitted.outputs[view][positions], positions)


def embed(
    fitted: Fitted,
    view: str,
    X: Any,
    first: int = 0,
    *,
    ids: Any = None,
    on_progress: OnProgress | None = None,
) -> NDArray[np.float32]:
    """Return the vectors (n, K) of entities given by features, ids or both.

    Raise InputError if neither is given, and as :func:`find_entities` does.
    """
    if X is None and ids is None:
        raise InputError(f"view {view!r}: expected X, ids or both, got neither")
    found = find_entities(fitted, view, X, ids, first=first, on_progress=on_progress)
    return found.outputs[:, : fitted.n_components]


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
            lambda rows, first, own: embed(fitted, view, rows, first, ids=own),
            max(1, CHUNK // width),
            on_progress=on_progress,
        )
        return save_atomically(path, parts)


def embed_graph(
    fitted: Fitted, graph: MultiViewGraph, *, show_progress: bool
) -> dict[str, Entities]:
    """Return all entities of a graph, by view.

    Entities are known by ids that were given in training and in the graph. Default ids do not
    identify an entity, but the whole table does: in other views with features all entities are
    known if the rows are those of the training, in their order, else all are new. Raise InputError
    or NotInductive as :func:`find_entities` does.
    """
    found = {}
    for view, X in graph.views.items():
        rows = rows_or_ids(fitted, view, graph)
        identified = X is not None and ids_identify(fitted, view, graph)
        ids = graph.ids[view] if identified else None
        with progress_bar(f"embedding {view}", show_progress) as on_progress:
            found[view] = find_entities(fitted, view, rows, ids, on_progress=on_progress)
        if (
            X is not None
            and not identified
            and _are_training_rows(fitted, view, graph, found[view])
        ):
            found[view] = find_entities(fitted, view, None, None)
    return found


def ids_identify(fitted: Fitted, view: str, graph: MultiViewGraph) -> bool:
    """Return whether the ids of a view were given both in training and in a graph."""
    return view in fitted.given_ids and view in graph.given_ids


def _are_training_rows(
    fitted: Fitted, view: str, graph: MultiViewGraph, entities: Entities
) -> bool:
    """Return whether entities without effects have the ids and features of the training entities.

    The model keeps no features: outputs without effects are compared.
    """
    if not np.array_equal(graph.ids[view], fitted.ids[view]):
        return False
    known = fitted.plain.get(view, fitted.outputs[view])
    difference = np.abs(entities.outputs - known).max()
    return bool(difference <= SAME_ROWS * np.abs(known).max())


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
