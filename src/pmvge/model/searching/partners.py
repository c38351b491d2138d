"""The best partners of entities with their names, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError
from pmvge.graph import Ids
from pmvge.model.estimator import PMvGE
from pmvge.model.fitted import texts_of
from pmvge.model.searching.indexes import Index, similar_index
from pmvge.model.searching.search import known_links


class Chunk(NamedTuple):
    """Some entities of a view: known ones, or rows of a table."""

    ids: Ids  # of the rows, or their numbers if the table has no id column
    X: Any  # features; None in a view without
    given_ids: Ids | None  # None if the table has no id column
    links: dict[str, Any] | None  # first links, as PMvGE.fold_in takes them

    def links_of(self, row: int) -> dict[str, Any] | None:
        """Return the first links of one row, as those of row 0; None if it has none."""
        found = {}
        for other, (rows, ids, weights) in (self.links or {}).items():
            own = np.flatnonzero(rows == row)
            if len(own):
                found[other] = (np.zeros_like(own), ids[own], weights[own])
        return found or None


def positions_of(model: PMvGE, view: str, ids: Ids) -> NDArray[np.int64]:
    """Return the positions of training entities in ``model.ids_``, -1 for ids that have none."""
    return model._check_fitted().positions_of(view, ids)


def training_positions(model: PMvGE, view: str, chunk: Chunk) -> NDArray[np.int64]:
    """Return which training entities those of a chunk are, as a search does; -1 for new ones.

    Beside features, only ids that were given in training identify an entity.
    """
    fitted = model._check_fitted()
    if chunk.given_ids is None or (chunk.X is not None and view not in fitted.given_ids):
        return np.full(len(chunk.ids), -1, np.int64)
    return fitted.positions_of(view, chunk.given_ids)


def entity_texts(model: PMvGE, view: str) -> dict[str, NDArray[Any]]:
    """Return the columns and labels of a view, the names first; a label hides a column."""
    return texts_of(model._check_fitted(), view)


def index_of_similar(model: PMvGE, view: str) -> Index:
    """Return the index that :meth:`PMvGE.similar <pmvge.PMvGE.similar>` searches."""
    return similar_index(model._check_fitted(), view, progress=model.progress)


def check_columns(model: PMvGE, among: str, wanted: Sequence[str], where: str) -> None:
    """Raise InputError, which starts with ``where``, for a column that the model does not have."""
    texts = entity_texts(model, among)
    for column in wanted:
        if column not in texts:
            listed = ", ".join(map(repr, texts)) or "none"
            raise InputError(
                f"{where}: view {among!r} has the columns {listed}, got {column!r}; to keep it in "
                f"the model, add it to labels of [views.{among}] in the project file and fit again"
            )


def best_partners(
    model: PMvGE,
    index: Index,
    chunk: Chunk,
    *,
    k: int,
    by: str,
    filters: Mapping[str, Any],
    exposure: float | None = None,
    show: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return for each entity its id and its best ``k`` partners, with scores, best first.

    Entities of views with names have their name, and partners the columns in ``show``.

    ``filters`` are those of :meth:`Index.search <pmvge.model.Index.search>`. "known" says whether a
    partner is linked to the entity in training, or by its first links; None if the model has no
    links.
    """
    ids, view, among = chunk.ids, index.among, index.view
    partners, scores = index.search(
        chunk.X,
        ids=chunk.given_ids,
        links=chunk.links,
        exposure=exposure,
        k=k,
        by="similarity" if by == "similarity" else "intensity",
        **filters,
    )
    key = "similarity" if by == "similarity" else "expected_weight"
    fitted = model._check_fitted()
    at = fitted.positions_of(among, partners.ravel()).reshape(partners.shape)
    own = training_positions(model, view, chunk)
    known = _are_linked(model, view, chunk, own, among, at)
    texts = entity_texts(model, among)
    return [
        {
            "id": ids[row].item(),
            **_name(model, view, own[row]),
            "partners": [
                {
                    "id": partner.item(),
                    **_name(model, among, position),
                    **({"columns": {c: str(texts[c][position]) for c in show}} if show else {}),
                    key: float(score),
                    "known": linked,
                }
                for partner, score, position, linked in zip(
                    partners[row], scores[row], at[row], known[row], strict=True
                )
                if not np.isnan(score)
            ],
        }
        for row in range(len(ids))
    ]


def _name(model: PMvGE, view: str, position: int) -> dict[str, str]:
    """Return the name of a training entity; nothing for new entities and views without names."""
    names = model.names_.get(view)
    return {} if names is None or position < 0 else {"name": str(names[position])}


def _are_linked(
    model: PMvGE,
    view: str,
    chunk: Chunk,
    own: NDArray[np.int64],
    among: str,
    at: NDArray[np.int64],
) -> list[list[bool | None]]:
    """Return which partners, at positions (entities, k), are linked; None without links."""
    if model.links_ is None:
        return [[None] * at.shape[1]] * len(at)
    fitted = model._check_fitted()
    linked = known_links(fitted, view, own, among)
    if chunk.links and among in chunk.links:
        rows, partners, weights = chunk.links[among]
        columns = fitted.positions_of(among, partners)
        linked = linked + sparse.csr_array((weights, (rows, columns)), linked.shape)
    rows = np.repeat(np.arange(len(at)), at.shape[1])
    weights = np.asarray(linked[rows, at.ravel().clip(0)]).ravel() if at.size else np.empty(0)
    known: Any = np.reshape(weights > 0, at.shape).tolist()
    return known  # type: ignore[no-any-return]
