"""Compute the map of the entities of all views."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import StorageError
from pmvge.maps import Coordinates, Relation, layout, place, stratified
from pmvge.model.estimator import PMvGE
from pmvge.model.fitted import Fitted
from pmvge.model.mapping.map_file import Map, vectors_checksum
from pmvge.model.mapping.neighbours import PARTNERS, SIMILAR, Neighbours, linked_pairs
from pmvge.model.mapping.quality import chance_share, find_top_partners, partner_share
from pmvge.progress import OnProgress, progress_bar, share_progress
from pmvge.search import top_k

MAX_FITTED = 50_000  # entities; if there are more, the layout is fitted to a sample
SAMPLE = 20_000  # entities of the sample
MAX_PLAIN = 5_000  # entities for which t-SNE of the vectors is computed, too
CHUNK = 1 << 14  # entities that are placed at once


class SampleMap(NamedTuple):
    """Coordinates of some entities of each view, and how they were computed."""

    positions: dict[str, NDArray[np.int64]]
    xy: Coordinates
    method: str  # without a full stop


def sample_map(
    model: PMvGE, points: int, *, seed: int = 0, on_progress: OnProgress | None = None
) -> SampleMap:
    """Return a layout of at most ``points`` entities of all views, drawn at random.

    See :func:`compute_map` for the layout.
    """
    fitted = model._check_fitted()
    sizes = {view: len(ids) for view, ids in fitted.ids.items()}
    positions = stratified(sizes, points, np.random.default_rng([seed, 2]))
    shares = share_progress({"search": 1, "layout": 4}, on_progress)
    relations = Neighbours(fitted, positions).of_sample(shares["search"])
    Y = {view: fitted.embeddings[view][rows] for view, rows in positions.items()}
    xy, method = layout(Y, relations, seed=seed, on_progress=shares["layout"])
    return SampleMap(positions, xy, _describe(fitted, method))


def compute_map(
    model: PMvGE,
    *,
    seed: int = 0,
    check: bool = True,
    progress: bool = True,
    on_progress: OnProgress | None = None,
) -> Map:
    """Return coordinates of the entities of all views on one map.

    The layout is t-SNE of a graph. In it each entity is joined to the most similar entities of its
    own view, by the cosines of their vectors, and to its partners with the largest expected weights
    in each linked view. So partners are close on the map even where the vectors of different views
    lie apart. Up to 50,000 entities are all fitted. If there are more, a sample of 20,000, with
    equally many of each large view, is fitted, and the others are placed near the most similar
    entities and the top partners in the sample.

    ``partner_share`` checks the map: the share of an entity's 10 nearest points of a linked view
    that are among its 10 partners with the largest expected weights there (a tenth of a view with
    fewer than 100 entities). ``chance_share`` is the share for points at random places, and
    ``plain_share`` that of t-SNE of the vectors alone, which is computed up to 5,000 entities.
    With ``check=False`` all three are None.

    The same seed gives the same map on one machine. ``progress`` shows a bar on terminals;
    ``on_progress`` is called instead, with the amount done and the total.
    """
    fitted = model._check_fitted()
    n = sum(map(len, fitted.ids.values()))
    points = n if n <= MAX_FITTED else SAMPLE
    check = check and any(view != other for view, other in linked_pairs(fitted))
    plain = check and n <= MAX_PLAIN
    # About the time that the parts take
    sizes = {"sample": 10 * points, "place": n - points}
    sizes |= {"check": n // 10 if check else 0, "plain": 10 * n if plain else 0}
    with progress_bar("drawing the map", progress and on_progress is None) as bar:
        report = on_progress or bar
        shares = share_progress(sizes, report)
        drawn = sample_map(model, points, seed=seed, on_progress=shares["sample"])
        xy = _place_others(fitted, drawn, shares["place"])
        top = find_top_partners(fitted, seed, shares["check"]) if check else {}
        other = plain_layout(model, seed=seed, on_progress=shares["plain"]) if plain else None
        if report is not None:
            report(1, 1)
    method = drawn.method
    if points < n:
        method += f", fitted to {points:,} of {n:,} entities; the others are placed near theirs"
    return Map(
        xy,
        f"{method}.",
        partner_share(xy, top),
        None if other is None else partner_share(other, top),
        vectors_checksum(model),
        chance_share(fitted, top),
    )


def plain_layout(
    model: PMvGE, *, seed: int = 0, on_progress: OnProgress | None = None
) -> Coordinates:
    """Return t-SNE of the vectors alone, without partners, in the form of :class:`Map`."""
    embeddings = model._check_fitted().embeddings
    vectors = np.concatenate(list(embeddings.values()))
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    itself = sparse.csr_array(sparse.eye_array(len(unit)))
    nearest, _ = top_k(unit, unit, SIMILAR, itself)
    relations = [Relation("all", "all", nearest, "similar")]
    xy, _ = layout({"all": vectors}, relations, seed=seed, on_progress=on_progress)
    ends = np.cumsum([len(Y) for Y in embeddings.values()])[:-1]
    return dict(zip(embeddings, np.split(xy["all"], ends), strict=True))


def _place_others(
    fitted: Fitted, drawn: SampleMap, on_progress: OnProgress | None = None
) -> Coordinates:
    """Return coordinates of all entities: those of the sample, and of the others near it."""
    neighbours = Neighbours(fitted, drawn.positions)
    done, total = 0, sum(len(ids) - len(drawn.positions[view]) for view, ids in fitted.ids.items())
    places = {}
    for view, at in drawn.positions.items():
        xy = np.empty((len(fitted.ids[view]), 2), np.float32)
        xy[at] = drawn.xy[view]
        others = np.setdiff1d(np.arange(len(xy)), at)
        for start in range(0, len(others), CHUNK):
            rows = others[start : start + CHUNK]
            xy[rows] = place(drawn.xy, neighbours.of_others(view, rows))
            if on_progress is not None:
                on_progress(done + start + len(rows), total)
        done += len(others)
        places[view] = xy
    return places


def _describe(fitted: Fitted, method: str) -> str:
    """Return how a layout was made, without a full stop."""
    if method != "t-SNE":
        return f"{method} of the vectors"
    text = f"t-SNE of a graph that joins each entity to its {SIMILAR} most similar ones"
    if linked_pairs(fitted):
        text += f" and to its top {PARTNERS} partners of each linked view, by expected weight"
    return text


def saved_map(
    model: PMvGE,
    folder: str | Path,
    *,
    seed: int = 0,
    progress: bool = True,
    on_progress: OnProgress | None = None,
) -> Map:
    """Return the map that was saved in a folder; else compute one and save it there.

    A map that is damaged or stale is replaced. Warn if it cannot be saved.
    """
    try:
        return Map.load(folder, model)
    except StorageError:
        drawn = compute_map(model, seed=seed, progress=progress, on_progress=on_progress)
    try:
        drawn.save(folder)
    except StorageError as error:
        warnings.warn(f"the map is computed each time: {error}", stacklevel=2)
    return drawn
