"""``/intensity`` and ``/explain``: expected weights of pairs of entities, and their parts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from pmvge.model import Chunk, PMvGE
from pmvge.serving.context import ERRORS, Context
from pmvge.serving.entities import check_results, find_entities, known_rows
from pmvge.serving.errors import Refused
from pmvge.serving.live_model import Served
from pmvge.serving.schemas import (
    ExplainAnswer,
    ExplainRequest,
    IntensityAnswer,
    IntensityRequest,
)
from pmvge.serving.settings import Limits


def router(context: Context) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(responses=ERRORS)

    @routes.post("/intensity", response_model=IntensityAnswer)
    async def intensity(request: IntensityRequest) -> Response:
        """Return the expected weights of links between entities of two views."""
        return await context.answer(expected_weights, request)

    @routes.post("/explain", response_model=ExplainAnswer)
    async def explain(request: ExplainRequest) -> Response:
        """Return the terms that add up to the log expected weights of pairs, and evidence."""
        return await context.answer(explain_pairs, request)

    return routes


def expected_weights(served: Served, request: IntensityRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/intensity``."""
    model, view, other = served.model, request.entities.view, request.others.view
    left, notes = find_entities(model, request.entities, limits, "entities.")
    right, more = find_entities(model, request.others, limits, "others.")
    check_results(len(left.ids), len(right.ids), limits)
    weights = model.intensity(
        view, left.X, other, right.X, ids=left.given_ids, ids_other=right.given_ids
    )
    kinds = {
        f"{'known' if a else 'new'}-{'known' if b else 'new'}"
        for a in set(known_rows(model, view, left).tolist())
        for b in set(known_rows(model, other, right).tolist())
    }
    return {
        "view": view,
        "other": other,
        "ids": left.ids.tolist(),
        "other_ids": right.ids.tolist(),
        "uncalibrated": [kind for kind in model.uncalibrated(view, other) if kind in kinds],
        "expected_weights": weights.tolist(),
        "notes": [*notes, *more],
    }


def explain_pairs(served: Served, request: ExplainRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explain``."""
    model, view, other = served.model, request.entities.view, request.others.view
    if request.k > limits.k:
        raise Refused(422, f"k: expected at most {limits.k:,}, got {request.k:,}")
    left, notes = find_entities(model, request.entities, limits, "entities.")
    right, more = find_entities(model, request.others, limits, "others.")
    n = len(left.ids)
    if n != len(right.ids) or n > limits.explained:
        raise Refused(
            422,
            f"expected as many others as entities, and at most {limits.explained}, got {n} and "
            f"{len(right.ids)}",
        )
    explanations = []
    for a, b in zip(_explained(model, view, left), _explained(model, other, right), strict=True):
        found = model.explain(
            view,
            a[0],
            other,
            b[0],
            X=a[1],
            X_other=b[1],
            links=a[2],
            exposure=None if a[2] is None else request.entities.exposure,
            max_parts=request.parts,
            k=request.k,
        )
        explanations.append(found.to_dict())
    return {"explanations": explanations, "notes": [*notes, *more]}


def _explained(model: PMvGE, view: str, chunk: Chunk) -> list[tuple[Any, Any, Any]]:
    """Return each entity, its row or None, and its links or None, as ``PMvGE.explain`` takes them.

    Entities that are numbered by their links alone are None.
    """
    known, found = known_rows(model, view, chunk), []
    for at, one in enumerate(chunk.ids):
        row = None if chunk.X is None else chunk.X[[at]]
        name = None if chunk.given_ids is None and chunk.X is None else one.item()
        entity = (name, row) if known[at] or row is None else (row, None)
        found.append((*entity, chunk.links_of(at)))
    return found
