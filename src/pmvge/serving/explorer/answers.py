"""What the explorer answers about entities: partners, similar ones, places on the map."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmvge.errors import InputError, choose
from pmvge.model import PMvGE, entity_texts, positions_of
from pmvge.serving.errors import Refused
from pmvge.serving.explorer.atlas import Atlas, describe_entity
from pmvge.serving.explorer.forms import (
    MAX_NAMED,
    ColorsRequest,
    EntityRequest,
    FindRequest,
    NamesRequest,
    NewRequest,
)
from pmvge.serving.routes.partners import find_partners, find_similar
from pmvge.serving.schemas import SearchRequest, SimilarRequest
from pmvge.serving.settings import Limits

NEIGHBOURS = 5  # similar entities, and partners in each view, that a new one is placed between
KNOWN = "known from training"  # a note that tells nothing of one new entity


def find(atlas: Atlas, request: FindRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explore/find``."""
    views = list(atlas.model.view_names_)
    if request.view is not None:
        choose("view", request.view, views, error=InputError)
        views = [request.view]
    found, more = atlas.finder.find(request.text, views, request.limit)
    return {"found": [atlas.found(view, at) for view, at in found], "more": more}


def names(atlas: Atlas, request: NamesRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explore/names``."""
    count = sum(map(len, request.positions.values()))
    if count > MAX_NAMED:
        raise Refused(422, f"positions: expected at most {MAX_NAMED}, got {count:,}")
    found = []
    for view, positions in request.positions.items():
        choose("view", view, atlas.model.view_names_, error=InputError)
        found += [atlas.found(view, _check(atlas.model, view, at)) for at in positions]
    return {"found": found}


def colors(atlas: Atlas, request: ColorsRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explore/colors``."""
    choose("view", request.view, atlas.model.view_names_, error=InputError)
    return {
        "view": request.view,
        "column": request.column,
        **atlas.colors(request.view, request.column),
    }


def entity(atlas: Atlas, request: EntityRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explore/entity``."""
    model, view = atlas.model, request.view
    choose("view", view, model.view_names_, error=InputError)
    if (request.id is None) == (request.at is None):
        raise InputError("expected one of id and at")
    if request.at is not None:
        at = _check(model, view, request.at)
    else:
        ids = model.find(view, [request.id], suggest=False)
        at = int(positions_of(model, view, ids)[0])
    texts = entity_texts(model, view)
    found = atlas.found(view, at)
    given = {"view": view, "ids": [found["id"]]}
    return {
        **found,
        "name": found.get("name"),
        "columns": {column: str(values[at]) for column, values in texts.items()},
        **_near(atlas, given, request.k, limits, exclude_known=request.exclude_known),
    }


def new(atlas: Atlas, request: NewRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explore/new``."""
    view = request.view
    choose("view", view, atlas.model.view_names_, error=InputError)
    links = {other: part for other, part in (request.links or {}).items() if part}
    given: dict[str, Any] = {"view": view}
    if request.row is not None:
        given["rows"] = [request.row]
    if links:
        given["links"] = links
    near = _near(atlas, given, request.k, limits)
    return {
        "view": view,
        "id": None,
        "name": None,
        "at": None,
        "xy": _place(atlas, view, near),
        "columns": {},
        **near,
        "notes": [note for note in near["notes"] if KNOWN not in note],
    }


def _near(
    atlas: Atlas, given: dict[str, Any], k: int, limits: Limits, *, exclude_known: bool = False
) -> dict[str, Any]:
    """Return the partners of an entity in every view, similar entities, and notes."""
    model, view = atlas.model, given["view"]
    pairs = {tuple(entry["pair"]) for entry in atlas.served.description["alpha"].values()}
    partners, notes = [], []
    for among in model.view_names_:
        linked = (view, among) in pairs or (among, view) in pairs
        if among == view and not linked:
            continue  # the similar ones
        answer = _search(atlas, {**given, "exclude_known": exclude_known}, among, k, linked, limits)
        partners.append(
            {
                "view": among,
                "by": answer["by"],
                "uncalibrated": bool(answer["uncalibrated"]),
                "entities": answer["entities"],
            }
        )
        notes += answer["notes"]
    request = {**given, "k": min(max(k, NEIGHBOURS), limits.k)}
    similar = find_similar(atlas.served, SimilarRequest.model_validate(request), limits)
    return {
        "partners": partners,
        "similar": _entities(model, view, similar),
        "notes": list(dict.fromkeys([*notes, *similar["notes"]])),
    }


def _search(
    atlas: Atlas, given: dict[str, Any], among: str, k: int, linked: bool, limits: Limits
) -> dict[str, Any]:
    """Return the best entities of a view, with their positions."""
    by = "intensity" if linked else "similarity"
    known = given.get("exclude_known", False) and atlas.model.links_ is not None and linked
    wanted = {**given, "exclude_known": known, "among": among, "k": min(k, limits.k), "by": by}
    answer = find_partners(atlas.served, SearchRequest.model_validate(wanted), limits)
    return {**answer, "entities": _entities(atlas.model, among, answer)}


def _entities(model: PMvGE, view: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entities of an answer of ``/search`` or ``/similar``, with their positions."""
    found = answer["results"][0]["partners"]
    ids = np.array([partner["id"] for partner in found], model.ids_[view].dtype)
    positions = positions_of(model, view, ids).tolist()
    return [
        {**one, **describe_entity(model, view, at)}
        for one, at in zip(found, positions, strict=True)
    ]


def _place(atlas: Atlas, view: str, near: dict[str, Any]) -> tuple[float, float] | None:
    """Return a place among the most similar entities and the best partners; None without a map.

    They can lie in several clusters. The place is the mean of those that are nearest to the medoid,
    the one with the least sum of distances to the others, so that it lies in one of the clusters.
    """
    found = {view: near["similar"]}
    found |= {
        part["view"]: part["entities"] for part in near["partners"] if part["by"] == "intensity"
    }
    if atlas.map is None or not any(found.values()):
        return None
    xy = atlas.map.xy
    places = np.array(
        [xy[other][one["at"]] for other, part in found.items() for one in part[:NEIGHBOURS]]
    )
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    nearest = np.argsort(distances[distances.sum(axis=1).argmin()], kind="stable")[:NEIGHBOURS]
    x, y = places[nearest].mean(axis=0).tolist()
    return x, y


def _check(model: PMvGE, view: str, at: int) -> int:
    n = len(model.ids_[view])
    if at >= n:
        raise InputError(f"view {view!r}: expected a position below {n:,}, got {at:,}")
    return at
