"""Tables of counts (AnnData, MuData, biom) as graphs, and vectors back into their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.checks import NotFitted
from pmvge.errors import GraphError, InputError, choose
from pmvge.graph import Ids, MultiViewGraph, find_ids


class Counts(NamedTuple):
    """A table of counts: rows are samples (cells, objects), columns are what was counted."""

    samples: list[str]
    columns: list[str]
    matrix: Any  # (samples, columns), dense or sparse
    features: Any = None  # of the columns; None: the view has none
    hint: str = ""  # what to do if values are no counts


class FittedModel(Protocol):
    """A model with vectors of its entities: :class:`pmvge.PMvGE`, or any method of baselines."""

    embeddings_: Mapping[str, NDArray[np.float32]]
    ids_: Mapping[str, Ids]


def graph_of_counts(
    where: str, view: str, tables: Mapping[str, Counts], features: Any = None
) -> MultiViewGraph:
    """Return the graph that links the samples, a view, to the columns of each table, views too.

    Weights are the counts. ``features`` are those of the samples, in the order of their first
    occurrence in the tables. Raise GraphError, which starts with ``where``, if a view has the name
    of the samples' view, names repeat, or counts are negative or not finite.
    """
    if not tables or view in tables:
        raise GraphError(
            f"{where}: expected tables under other names than {view!r}, the view of the rows, got "
            f"{', '.join(map(repr, tables)) or 'none'}"
        )
    samples = list(dict.fromkeys(name for table in tables.values() for name in table.samples))
    position = {name: at for at, name in enumerate(samples)}
    links = {}
    for name, table in tables.items():
        _check_distinct(f"{where}: {view} - {name}", view, table.samples, "obs_names_make_unique")
        _check_distinct(f"{where}: {view} - {name}", name, table.columns, "var_names_make_unique")
        matrix = sparse.coo_array(table.matrix)
        weights = np.asarray(matrix.data, dtype=np.float64)
        bad = weights[~np.isfinite(weights) | (weights < 0)]
        if len(bad):
            raise GraphError(
                f"{where}: {name}: expected counts, finite numbers >= 0, but {len(bad):,} are not, "
                f"such as {bad[0]:g}{table.hint}"
            )
        rows = np.array([position[sample] for sample in table.samples], dtype=np.int64)
        links[view, name] = (rows[matrix.row], matrix.col.astype(np.int64), weights)
    views: dict[str, Any] = {view: len(samples) if features is None else features}
    ids = {view: samples}
    for name, table in tables.items():
        views[name] = len(table.columns) if table.features is None else table.features
        ids[name] = table.columns
    return MultiViewGraph(views, links, ids)


def _check_distinct(where: str, view: str, names: list[str], method: str) -> None:
    """Raise GraphError if names repeat; ``method`` of AnnData and MuData makes them distinct."""
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        raise GraphError(
            f"{where}: expected distinct names of {view!r}, got {name!r} {times:,} times; "
            f"call {method}() first"
        )


def vectors_of(where: str, model: FittedModel, view: str, names: Any) -> NDArray[np.float32]:
    """Return the vectors (n, K) of entities of a model by their ids; NaN for unknown ids.

    Raise InputError, which starts with ``where``, if the model has no such view, or none of the
    ids, and NotFitted before ``fit``.
    """
    if not hasattr(model, "ids_"):
        raise NotFitted(
            f"{where}: this {type(model).__name__} is not fitted: call fit(graph) first"
        )
    choose("view", view, model.ids_, where, error=InputError)
    known = model.ids_[view]
    wanted = np.asarray(list(names), dtype=str)
    at = find_ids(known.astype(str), wanted)
    if (at < 0).all():
        raise InputError(
            f"{where}: expected ids of view {view!r}, such as {known.tolist()[0]!r}, got "
            f"{', '.join(map(repr, wanted[:3].tolist())) or 'none'}"
        )
    vectors = np.full((len(wanted), model.embeddings_[view].shape[1]), np.nan, np.float32)
    vectors[at >= 0] = model.embeddings_[view][at[at >= 0]]
    return vectors
