"""Search for the best partners of entities, with some candidates left out."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError, short
from pmvge.graph import Ids, as_input_ids
from pmvge.likelihoods import PairLevels, expected_weight
from pmvge.model.embedding import Entities
from pmvge.model.fitted import Fitted
from pmvge.progress import OnProgress
from pmvge.search import VectorIndex
from pmvge.similarities import Similarity

EXCLUDE = ("known", "self")


@dataclass(frozen=True, eq=False)
class Candidates:
    """Entities of one view that can be partners: their vectors, and who they are."""

    view: str
    vectors: VectorIndex
    names: Ids  # what a search returns for them
    positions: NDArray[np.int64] | None  # in training, -1 for new ones; None: all of them, in order
    new: NDArray[np.bool_]  # (m,)


@dataclass(frozen=True, eq=False)
class Filters:
    """Which candidates a search returns; see :meth:`PMvGE.search <pmvge.PMvGE.search>`."""

    exclude: Any = None
    allow: Any = None
    deny: Any = None
    min_weight: Any = None


def search(
    fitted: Fitted,
    view: str,
    queries: Entities,
    candidates: Candidates,
    similarity: Similarity,
    *,
    k: int,
    by: str,
    filters: Filters,
    on_progress: OnProgress | None = None,
) -> tuple[Ids, NDArray[np.float64]]:
    """Return ids and scores of the best candidates of each query, both (n, k).

    See :meth:`PMvGE.search <pmvge.PMvGE.search>`. ``similarity`` is that of the two views. Raise
    InputError if ``k``, a filter or a view is not valid.
    """
    among = candidates.view
    least = _check_min_weight(filters.min_weight, by)
    if by == "intensity":
        fitted.alpha_of(view, among, remedy="; by='similarity' ranks any pair")
    positions, product = candidates.vectors.top_k(
        similarity.query_array(queries.outputs),
        k,
        _excluded(fitted, view, queries, candidates, filters.exclude),
        allowed=_allowed(fitted, candidates, filters),
        on_progress=on_progress,
    )
    g = similarity.outer_array(product).astype(np.float64)
    scores = g
    if by == "intensity":
        level = fitted.level_of(view, among, queries.new, candidates.new)
        log_alpha = (
            level.at(np.arange(len(g))[:, None], positions)
            if isinstance(level, PairLevels)
            else level
        )
        scores = expected_weight(g, log_alpha, fitted.family_of(view, among))
    ids = (
        candidates.names[positions] if positions.size else np.empty(g.shape, candidates.names.dtype)
    )
    # Scores of a query decrease, so that the first k above a limit are those of the first k.
    left_out = positions < 0 if least is None else (positions < 0) | (scores < least)
    if left_out.any():
        ids[left_out] = -1 if ids.dtype.kind in "iu" else ""
        scores[left_out] = np.nan
    return ids, scores


def _check_min_weight(value: Any, by: str) -> float | None:
    if value is None:
        return None
    if by != "intensity":
        raise InputError("search: min_weight: expected by='intensity', got by='similarity'")
    valid = isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(float(value))
    if not valid:
        raise InputError(f"search: min_weight: expected a number, got {value!r}")
    return float(value)


def _allowed(fitted: Fitted, candidates: Candidates, filters: Filters) -> NDArray[np.bool_] | None:
    """Return which candidates (m,) any query may have; None: all."""
    allowed = None
    lists = {"allow": filters.allow, "deny": filters.deny}
    if filters.exclude is not None and not isinstance(filters.exclude, str):
        lists["exclude"] = filters.exclude
    for name, given in lists.items():
        if given is None:
            continue
        listed = _known_candidates(fitted, candidates, name, given)
        part = listed if name == "allow" else ~listed
        allowed = part if allowed is None else allowed & part
    return allowed


def _known_candidates(
    fitted: Fitted, candidates: Candidates, name: str, given: Any
) -> NDArray[np.bool_]:
    """Return which candidates (m,) have the given ids; raise InputError for unknown ids."""
    ids = as_input_ids(f"search: {name}", given) if np.ndim(given) == 0 or len(given) else None
    known = fitted.ids[candidates.view]
    listed = np.zeros(len(known), bool)
    if ids is not None:
        at = fitted.positions_of(candidates.view, ids)
        if (at < 0).any():
            unknown = ids[at < 0]
            raise InputError(
                f"search: {name}: expected ids of {candidates.view!r} from training, got "
                f"{len(unknown)} unknown, such as {short(unknown[0].item())}"
            )
        listed[at] = True
    if candidates.positions is None:
        return listed
    return listed[candidates.positions] & (candidates.positions >= 0)


def _excluded(
    fitted: Fitted, view: str, entities: Entities, candidates: Candidates, exclude: Any
) -> sparse.csr_array | None:
    """Return a matrix (queries, candidates) whose entries are left out of the search."""
    if exclude is None or not isinstance(exclude, str):
        return None
    if exclude not in EXCLUDE:
        raise InputError(
            f"search: exclude: expected None, 'known', 'self' or a list of ids, got {exclude!r}"
        )
    among, queries = candidates.view, entities.positions
    m = len(fitted.ids[among])
    parts = []  # (queries, entities of the training)
    if exclude == "known":
        parts.append(known_links(fitted, view, queries, among))
        if among in entities.first_links:
            parts.append(entities.first_links[among])
    if view == among:
        parts.append(_selection(queries, m))
    if not parts:
        return None
    left_out = sum(parts[1:], parts[0])
    if candidates.positions is not None:
        left_out = left_out @ _selection(candidates.positions, m).T
    return left_out if isinstance(left_out, sparse.csr_array) else sparse.csr_array(left_out)


def known_links(
    fitted: Fitted,
    view: str,
    queries: NDArray[np.int64],
    among: str,
    candidates: NDArray[np.int64] | None = None,
) -> sparse.csr_array:
    """Return the weights (queries, candidates) of links that were given to ``fit``.

    Without candidates, all training entities of ``among``. Entities are positions in training, -1
    for new ones. Raise InputError if the model has no links.
    """
    links = fitted.require_links("known links").matrix(view, among)
    n, m = len(fitted.ids[view]), len(fitted.ids[among])
    if links is None:
        links = sparse.csr_array((n, m))
    whole = bool(len(queries)) and int(queries.min()) >= 0
    selected = links[queries] if whole else _selection(queries, n) @ links  # rows: faster
    if candidates is not None:
        selected = selected @ _selection(candidates, m).T
    return selected if isinstance(selected, sparse.csr_array) else sparse.csr_array(selected)


def _selection(positions: NDArray[np.int64], n: int) -> sparse.csr_array:
    """Return a matrix (positions, n) with a 1 at each position that is not -1."""
    known = np.flatnonzero(positions >= 0)
    ones = np.ones(len(known))
    return sparse.csr_array((ones, (known, positions[known])), shape=(len(positions), n))
