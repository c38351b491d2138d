r"""Fold in: effects of new entities from their first links, with everything else fixed.

The effects of a new entity maximise the log-likelihood of its links with known entities plus the
log-density of the prior; :mod:`pmvge.model.fold_in.row_solver` has the formulas. The sum over the
other side is exact up to ``EXACT`` candidates. Beyond that, a fixed sample S of ``SAMPLE``
candidates estimates it, drawn with density :math:`q_j = \frac 1 2 \deg_j / W + \frac 1 2 / m`,
with weights :math:`v_j = 1 / (|S| q_j)`. The row's own partners are in the sum with weight 1
instead, so that it is unbiased and does not depend on other rows.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.encoders import embed_rows
from pmvge.errors import InputError, NotInductive, short
from pmvge.graph import Features, as_input_ids, check_rows
from pmvge.model.embedding import Entities, find_entities
from pmvge.model.fitted import Fitted
from pmvge.model.fold_in.first_links import FirstLinks, check_exposure, check_first_links
from pmvge.model.fold_in.row_solver import MAX_STEPS, RowLikelihood, Rows, maximize
from pmvge.progress import OnProgress
from pmvge.similarities import WithBiases

EXACT = 10**5  # candidates
SAMPLE = 1 << 15  # draws, if there are more
CELLS = 1 << 22  # pairs of rows and candidates in memory at once
MAX_ROWS = 1024  # rows at once
FIRST_STEPS = 1  # Newton steps of effects that training starts from: more cost time, and gain none


def find_or_fold_in(
    fitted: Fitted,
    view: str,
    X: Any,
    ids: Any,
    *,
    links: Any = None,
    exposure: Any = None,
    on_progress: OnProgress | None = None,
) -> Entities:
    """Return entities as :func:`find_entities` does; new ones with links get effects from them.

    Raise InputError if links are not valid, belong to a known entity, or if the view has no
    effects.
    """
    if links is None:
        if exposure is not None:
            raise InputError("exposure: expected links, too")
        return find_entities(fitted, view, X, ids, on_progress=on_progress)
    exposure, kind = check_exposure(exposure), fitted.effects[view]
    if kind == "none":
        raise InputError(
            f"links: view {view!r} has no effects, so links cannot change its vectors; fit the "
            f"model with effects='vector' or effects={{{view!r}: 'vector'}}"
        )
    if fitted.schema_of(view).row_shape is None:
        rows = None
        entities = _featureless(fitted, view, X, ids, links)
    else:
        if X is None:
            raise InputError(f"links: view {view!r} has features: expected X, got none")
        entities = find_entities(fitted, view, X, ids)
        shape = fitted.schema_of(view).row_shape
        assert shape is not None
        rows = check_rows(view, X, shape)
        first = check_first_links(fitted, view, len(entities.positions), links)
        entities = entities._replace(first_links=first)
    linked = _linked_rows(view, entities)
    if kind == "bias" and exposure is None:
        return entities  # biases describe the level alone, which is not observed
    found = _fold_in(fitted, view, rows, entities, linked, exposure, on_progress)
    effects = np.zeros((len(entities.positions), found.shape[1]), np.float32)
    effects[linked] = found
    entities = entities._replace(effects=effects)
    if exposure is None:
        return entities
    return entities._replace(has_level=np.isin(np.arange(len(entities.positions)), linked))


def _featureless(fitted: Fitted, view: str, X: Any, ids: Any, links: Any) -> Entities:
    """Return entities of a featureless view, known or new, before their links are used."""
    if fitted.effects[view] != "vector":
        raise NotInductive(
            f"links: view {view!r} has neither features nor vectors as effects, so new entities "
            "have no vector; fit the model with effects='vector'"
        )
    if X is not None and ids is not None:
        raise InputError(f"view {view!r} has no features: expected ids alone, got X and ids")
    given, K = ids if X is None else X, fitted.n_components
    positions = None
    if given is not None:
        positions = fitted.positions_of(view, as_input_ids(f"view {view!r}: ids", given))
    n = None if positions is None else len(positions)
    first = check_first_links(fitted, view, n, links)
    if positions is None:
        n = max((matrix.shape[0] for matrix in first.values()), default=0)
        positions = np.full(n, -1, np.int64)
    outputs = embed_rows(fitted.network, view, None, np.full_like(positions, -1), K)
    known = positions >= 0
    outputs[known] = fitted.outputs[view][positions[known]]
    return Entities(outputs, positions, first)


def _linked_rows(view: str, entities: Entities) -> NDArray[np.int64]:
    """Return the rows that have links; raise InputError if one is a known entity."""
    counts = np.zeros(len(entities.positions), np.int64)
    for matrix in entities.first_links.values():
        counts += np.diff(matrix.indptr)
    known = np.flatnonzero((counts > 0) & (entities.positions >= 0))
    if len(known):
        raise InputError(
            f"links of {view!r}: expected links of new entities, but {len(known)} rows have ids of "
            f"the training, such as row {short(int(known[0]))}; leave out their links, or their ids"
        )
    return np.flatnonzero(counts)


class _Other(NamedTuple):
    """The candidates of one other view."""

    view: str
    positions: NDArray[np.int64]  # sorted
    importance: NDArray[np.float64] | None  # None: all entities, with weight 1


def _candidates(fitted: Fitted, view: str, other: str) -> _Other:
    """Return all entities of a view, or an importance sample of them; always the same one."""
    m = len(fitted.ids[other])
    if m <= EXACT:
        return _Other(other, np.arange(m), None)
    density = np.full(m, 1 / m)
    if fitted.links is not None:
        degrees = fitted.known_links(view, other).degrees()[1]
        density = (density + degrees / degrees.sum()) / 2
    ends = np.cumsum(density)
    u = (np.arange(SAMPLE) + np.random.default_rng(0).random(SAMPLE)) / SAMPLE  # stratified
    drawn = np.searchsorted(ends, u * ends[-1]).clip(max=m - 1)
    positions, counts = np.unique(drawn, return_counts=True)
    return _Other(other, positions, counts / (SAMPLE * density[positions]))


def fold_in_effects(
    fitted: Fitted, view: str, rows: Features | None, first: FirstLinks
) -> NDArray[np.float32]:
    """Return effects (n, n_vector + P) of new entities to start from; 0 without links.

    Exposure is full, and only ``FIRST_STEPS`` Newton steps are made. ``rows`` are the features,
    None in a view without, and ``first`` the links with known entities.
    """
    n = next(iter(first.values())).shape[0]
    linked = np.flatnonzero(sum(np.diff(matrix.indptr) for matrix in first.values()))
    outputs = np.empty((n, fitted.outputs[view].shape[1]), np.float32)
    entities = Entities(outputs, np.full(n, -1, np.int64), first)
    effects: Any = fitted.network.effects_of(view)
    found = np.zeros((n, effects.weight.shape[1]), np.float32)
    found[linked] = _fold_in(fitted, view, rows, entities, linked, 1.0, None, FIRST_STEPS)
    return found


def _fold_in(
    fitted: Fitted,
    view: str,
    rows: Features | None,
    entities: Entities,
    linked: NDArray[np.int64],
    exposure: float | None,
    on_progress: OnProgress | None,
    max_steps: int = MAX_STEPS,
) -> NDArray[np.float32]:
    """Return the effects of rows with links, and set their outputs, chunk by chunk."""
    effects, similarity = fitted.network.effects_of(view), fitted.pair_similarity
    assert effects is not None
    assert isinstance(similarity, WithBiases)
    found = np.zeros((len(linked), effects.weight.shape[1]), np.float32)
    if not len(linked):
        return found
    similarity = copy.deepcopy(similarity).double().cpu().requires_grad_(False)
    family = copy.deepcopy(fitted.family).double().cpu().requires_grad_(False)
    sigma, tau = effects.prior.double().cpu()
    n_biases, K = fitted.network.n_biases(view), fitted.n_components
    precision = torch.cat([sigma.expand(effects.n_vector), tau.expand(n_biases)]) ** -2
    others = [_candidates(fitted, view, other) for other in entities.first_links]
    step = max(1, min(MAX_ROWS, CELLS // max(len(other.positions) for other in others)))
    for start in range(0, len(linked), step):
        chunk = linked[start : start + step]
        at = chunk if rows is not None else np.full(len(chunk), -1, np.int64)
        before = embed_rows(fitted.network, view, rows, at, K, before_effects=True)
        likelihoods = []
        for other in others:
            positions, W, v = _cells(other, entities.first_links, chunk)
            compared = similarity.for_pair(view, other.view)
            outputs = torch.from_numpy(fitted.outputs[other.view][positions]).double()
            likelihoods.append(
                RowLikelihood(
                    (view, other.view),
                    family.for_pair(view, other.view),
                    compared,
                    fitted.log_alpha_of(view, other.view),
                    compared.candidate(outputs),
                    W,
                    v,
                    exposure,
                    fitted.alpha_of(view, other.view).pair_weight,
                )
            )
        problem = Rows(
            torch.from_numpy(before[:, :K]).double(),
            torch.from_numpy(before[:, K:]).double(),
            effects.n_vector,
            precision,
            similarity.similarity,
            rows is None,
            likelihoods,
        )
        theta = maximize(problem, max_steps)
        found[start : start + step] = theta.float().numpy()
        entities.outputs[chunk] = problem.outputs(theta).float().numpy()
        if on_progress is not None:
            on_progress(start + len(chunk), len(linked))
    return found


def _cells(
    other: _Other, links: FirstLinks, chunk: NDArray[np.int64]
) -> tuple[NDArray[np.int64], torch.Tensor, torch.Tensor | None]:
    """Return candidates, and the weights (n, m) of links and of the candidates for some rows."""
    own = sparse.coo_array(links[other.view][chunk])
    positions = other.positions
    if other.importance is not None:
        positions = np.union1d(positions, own.col)
    columns = np.searchsorted(positions, own.col)
    W = torch.zeros(len(chunk), len(positions), dtype=torch.float64)
    W[own.row.astype(np.int64), columns] = torch.from_numpy(own.data)
    if other.importance is None:
        return positions, W, None
    v = torch.zeros(len(positions), dtype=torch.float64)
    v[np.searchsorted(positions, other.positions)] = torch.from_numpy(other.importance)
    return positions, W, torch.where(W > 0, 1.0, v)
