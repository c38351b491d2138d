"""Write FAISS indexes of candidate vectors, with the ids of their positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from pmvge import storage
from pmvge.errors import choose
from pmvge.export.extras import require
from pmvge.export.files import write_bytes, write_json, write_table
from pmvge.model import PMvGE, linked_views
from pmvge.search import top_k

INDEXES = "indexes.json"
KINDS = ("flat", "hnsw")
NEIGHBOURS, BUILD_WIDTH, SEARCH_WIDTH = 32, 200, 256  # of HNSW: M, efConstruction, efSearch
QUERIES, K = 200, 10  # that recall is measured with


def export_faiss(model: PMvGE, folder: str | Path, *, index: str = "flat") -> list[Path]:
    """Write a FAISS index for each view and each view that it is linked to; return the paths.

    ``FILMS-for-USERS.faiss`` has the candidate vectors of films for queries of users
    (:meth:`PMvGE.vectors <pmvge.PMvGE.vectors>`), compared by inner products: it ranks as
    :meth:`PMvGE.search <pmvge.PMvGE.search>` does. ``FILMS.ids.parquet`` has the ``position`` in
    the index, the ``id``, and the ``name`` if there are names. ``indexes.json`` lists the indexes
    with their kind, width, log alpha, and recall against exact search.

    ``index`` is "flat" (exact) or "hnsw" (approximate, faster for large views). Raise InputError if
    FAISS is not installed, ParameterError for an unknown kind, and StorageError if a file cannot be
    written.
    """
    choose("index", index, KINDS, "export to FAISS: index")
    faiss = require("faiss", "the export to FAISS")
    folder = storage.make_folder(Path(folder), "export")
    paths, listed = [], []
    for view in model.view_names_:
        partners = linked_views(model.log_alpha_, view)
        ids = folder / f"{storage.file_name(view)}.ids.parquet"
        if partners:
            paths.append(write_table(ids, _id_table(model, view)))
        for other in partners:
            path = folder / f"{storage.file_name(view)}-for-{storage.file_name(other)}.faiss"
            candidates = model.vectors(view, among=other, side="candidate")
            built = _build(faiss, candidates, index)
            paths.append(write_bytes(path, faiss.serialize_index(built).tobytes()))
            log_alpha = model.log_alpha_of(view, other)
            listed.append(
                {
                    "file": path.name,
                    "ids": ids.name,
                    "candidates": view,
                    "queries": other,
                    "kind": index,
                    "width": candidates.shape[1],
                    "log_alpha": log_alpha if np.isfinite(log_alpha) else None,
                    f"recall@{K}": _recall(built, candidates, model, view, other),
                }
            )
    return [*paths, write_json(folder / INDEXES, {"indexes": listed})]


def _id_table(model: PMvGE, view: str) -> pyarrow.Table:
    """Return the ids and names of a view, in the order of the index."""
    ids = model.ids_[view]
    columns = {"position": np.arange(len(ids)), "id": ids}
    columns |= {"name": model.names_[view]} if view in model.names_ else {}
    return pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})


def _build(faiss: Any, candidates: NDArray[np.float32], kind: str) -> Any:
    r"""Return a FAISS index of vectors, compared by inner products.

    The graph of HNSW needs vectors of one norm: long vectors would be neighbours of all others. So
    candidates get one more coordinate, :math:`\sqrt{\max |c|^2 - |c|^2}`, and the index adds a 0 to
    queries, which changes no inner product.
    """
    width = candidates.shape[1]
    if kind == "flat":
        index = faiss.IndexFlatIP(width)
        index.add(candidates)
        return index
    squares = np.square(candidates, dtype=np.float64).sum(1, keepdims=True)
    rest = np.sqrt(squares.max(initial=0) - squares)
    graph = faiss.IndexHNSWFlat(width + 1, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction, graph.hnsw.efSearch = BUILD_WIDTH, SEARCH_WIDTH
    graph.add(np.hstack([candidates, rest]).astype(np.float32))
    append = faiss.LinearTransform(width, width + 1, False)
    faiss.copy_array_to_vector(np.eye(width + 1, width, dtype=np.float32).ravel(), append.A)
    append.is_trained = True
    return faiss.IndexPreTransform(append, graph)


def _recall(
    index: Any, candidates: NDArray[np.float32], model: PMvGE, view: str, other: str
) -> float:
    """Return the share of the exact best candidates that the index finds, over some queries."""
    n = len(model.ids_[other])
    rows = np.unique(np.linspace(0, n - 1, min(n, QUERIES)).astype(int))
    queries = model.vectors(other, among=view, side="query")[rows]
    best, _ = top_k(queries, candidates, K)
    _, found = index.search(queries, best.shape[1])
    hits = sum(len(np.intersect1d(*pair)) for pair in zip(best, found, strict=True))
    return hits / best.size
