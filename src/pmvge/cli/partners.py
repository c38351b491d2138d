"""The best partners of entities: queries, scores, and the links that they have already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.cli.new_rows import embed_table
from pmvge.errors import InputError
from pmvge.graph import Ids, find_ids
from pmvge.likelihoods import expected_weight
from pmvge.model import Background, PMvGE
from pmvge.search import Embeddings, top_k
from pmvge.tables import Notes


def check_linked(model: PMvGE, view: str, among: str) -> None:
    """Raise InputError unless the two views were linked in training."""
    if not {(view, among), (among, view)} & set(model.log_alpha_):
        linked = ", ".join(",".join(pair) for pair in model.log_alpha_)
        raise InputError(
            f"{view} and {among} were not linked in training (linked are {linked}), so there are "
            "no expected weights; --by similarity ranks any two views"
        )


def embed_new(model: PMvGE, view: str, table: str, notes: Notes) -> Embeddings:
    """Return ids and vectors of all rows of a table of new entities."""
    chunks = list(embed_table(model, view, table, notes))
    ids = np.concatenate([chunk.ids for chunk in chunks])
    return Embeddings(ids, np.concatenate([chunk.vectors for chunk in chunks]))


def find_known(model: PMvGE, view: str, ids: list[str]) -> Embeddings:
    """Return ids and vectors of entities of the training; raise InputError for unknown ids."""
    known = model.ids_[view]
    wanted: Ids = np.array(ids)
    if known.dtype.kind in "iu":
        try:
            wanted = np.array([int(text) for text in ids], dtype=np.int64)
        except (ValueError, OverflowError):
            raise InputError(f"--id: the ids of {view!r} are integers, got {ids!r}") from None
    positions = find_ids(known, wanted)
    if (positions < 0).any():
        absent = _as_python(wanted[positions < 0][0])
        examples = ", ".join(repr(_as_python(value)) for value in known[:3])
        raise InputError(
            f"--id: {absent!r} is not among the {len(known):,} ids of {view!r}, such as "
            f"{examples}; pass new entities by --rows"
        )
    return Embeddings(wanted, model.embeddings_[view][positions])


def best_partners(
    model: PMvGE,
    background: Background | None,
    queries: Embeddings,
    *,
    view: str,
    among: str,
    k: int,
    by: str,
    exclude_known: bool,
) -> list[dict[str, Any]]:
    """Return for each query its id and its best ``k`` partners, with scores, best first.

    An entity is not a partner of itself. With ``exclude_known``, partners that are linked to the
    query in training are left out.
    """
    positions = find_ids(model.ids_[view], queries.ids)
    linked = _linked(model, background, view, among, positions)
    hidden = linked if exclude_known else sparse.csr_array(linked.shape)
    if view == among:
        hidden = hidden + _selves(positions, len(model.ids_[among]))
    similarity = model.similarity_
    candidates = model.vectors(among, among=view, side="candidate")
    at, product = top_k(
        similarity.query_array(queries.vectors), candidates, k, exclude=hidden.tocsr()
    )
    g = similarity.outer_array(product).astype(np.float64)
    if by == "similarity":
        key, scores = "similarity", g
    else:
        key, scores = "expected_weight", expected_weight(g, model.log_alpha_of(view, among))
    return [
        {
            "id": _as_python(queries.ids[row]),
            "partners": [
                {
                    "id": _as_python(model.ids_[among][position]),
                    key: float(scores[row, rank]),
                    "known": bool(linked[row, position]),
                }
                for rank, position in enumerate(at[row])
                if position >= 0
            ],
        }
        for row in range(len(queries))
    ]


def _linked(
    model: PMvGE,
    background: Background | None,
    view: str,
    among: str,
    positions: NDArray[np.int64],
) -> sparse.csr_array:
    """Return which candidates (columns) each query (row) is linked to, held-out links included."""
    n_view, n_among = len(model.ids_[view]), len(model.ids_[among])
    total = sparse.csr_array((n_view, n_among))
    for links in background.of_pair(view, among) if background else (None, None):
        if links is not None:
            total = total + links.matrix()
    return sparse.csr_array(_selves(positions, n_view) @ total)


def _selves(positions: NDArray[np.int64], n: int) -> sparse.csr_array:
    """Return a matrix with a 1 at (row, position) for each query that is in the training."""
    known = np.flatnonzero(positions >= 0)
    ones = np.ones(len(known))
    return sparse.csr_array((ones, (known, positions[known])), shape=(len(positions), n))


def _as_python(value: Any) -> Any:
    """Return an id as Python's int or str."""
    return value.item() if hasattr(value, "item") else value
