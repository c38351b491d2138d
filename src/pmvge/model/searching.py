"""Search for the best partners of entities, with some candidates left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError, short
from pmvge.graph import Ids, as_input_ids, find_ids
from pmvge.likelihoods import PairLevels, expected_weight
from pmvge.model.embedding import Entities, find_entities
from pmvge.model.fitted import Fitted
from pmvge.progress import OnProgress
from pmvge.search import top_k

EXCLUDE = ("known", "self")


def search(
    fitted: Fitted,
    view: str,
    queries: Entities,
    *,
    among: str,
    k: int,
    by: str,
    exclude: Any,
    candidates: Any,
    on_progress: OnProgress | None = None,
) -> tuple[Ids, NDArray[np.float64]]:
    """Return ids and scores of the best candidates of each query, both (n, k).

    See :meth:`PMvGE.search <pmvge.PMvGE.search>`. Raise InputError if ``k``, ``exclude`` or a view
    is not valid.
    """
    if by == "intensity":
        fitted.alpha_of(view, among)
    pool = find_entities(fitted, among, candidates, None)
    similarity = fitted.pair_similarity.for_pair(view, among)
    positions, product = top_k(
        similarity.query_array(queries.outputs),
        similarity.candidate_array(pool.outputs),
        k,
        _excluded(fitted, view, queries, among, pool.positions, exclude),
        on_progress=on_progress,
    )
    names = fitted.ids[among] if candidates is None else np.arange(len(pool.positions))
    ids = names[positions]
    g = similarity.outer_array(product).astype(np.float64)
    scores = g
    if by == "intensity":
        level = fitted.level_of(view, among, queries.new, pool.new)
        log_alpha = (
            level.at(np.arange(len(g))[:, None], positions)
            if isinstance(level, PairLevels)
            else level
        )
        scores = expected_weight(g, log_alpha, fitted.family_of(view, among))
    if (left_out := positions < 0).any():
        ids[left_out] = -1 if ids.dtype.kind in "iu" else ""
        scores[left_out] = np.nan
    return ids, scores


def _excluded(
    fitted: Fitted,
    view: str,
    entities: Entities,
    among: str,
    candidates: NDArray[np.int64],
    exclude: Any,
) -> sparse.csr_array | None:
    """Return a matrix (queries, candidates) whose entries are left out of the search."""
    if exclude is None:
        return None
    queries = entities.positions
    shape = (len(queries), len(candidates))
    if not isinstance(exclude, str):
        given = as_input_ids("search: exclude", exclude)
        out = find_ids(fitted.ids[among], given)
        if (out < 0).any():
            unknown = given[out < 0]
            raise InputError(
                f"search: exclude: expected ids of {among!r} from training, got {len(unknown)} "
                f"unknown, such as {short(unknown[0].item())}"
            )
        columns = np.flatnonzero(np.isin(candidates, out))
        rows = np.repeat(np.arange(shape[0]), len(columns))
        return _ones(rows, np.tile(columns, shape[0]), shape)
    if exclude not in EXCLUDE:
        raise InputError(
            f"search: exclude: expected None, 'known', 'self' or a list of ids, got {exclude!r}"
        )
    left_out = sparse.csr_array(shape)
    if exclude == "known":
        left_out = left_out + known_links(fitted, view, queries, among, candidates)
        if among in entities.first_links:
            own = entities.first_links[among]
            left_out = left_out + own @ _selection(candidates, own.shape[1]).T
    if view == among:
        n = len(fitted.ids[view])
        left_out = left_out + _selection(queries, n) @ _selection(candidates, n).T
    return sparse.csr_array(left_out)


def known_links(
    fitted: Fitted,
    view: str,
    queries: NDArray[np.int64],
    among: str,
    candidates: NDArray[np.int64] | None = None,
) -> sparse.csr_array:
    """Return the weights (queries, candidates) of links that were given to ``fit``.

    Entities are positions in training, -1 for new ones. Raise InputError if the model has no links.
    """
    links = fitted.require_links("known links").matrix(view, among)
    n, m = len(fitted.ids[view]), len(fitted.ids[among])
    if links is None:
        links = sparse.csr_array((n, m))
    selected = _selection(queries, n) @ links
    if candidates is not None:
        selected = selected @ _selection(candidates, m).T
    return sparse.csr_array(selected)


def _selection(positions: NDArray[np.int64], n: int) -> sparse.csr_array:
    """Return a matrix (positions, n) with a 1 at each position that is not -1."""
    known = np.flatnonzero(positions >= 0)
    return _ones(known, positions[known], (len(positions), n))


def _ones(
    rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
