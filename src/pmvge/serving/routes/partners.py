"""``/search`` and ``/similar``: the best partners of entities."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from pmvge.errors import InputError, choose
from pmvge.model import best_partners, check_columns
from pmvge.serving.context import ERRORS, Context
from pmvge.serving.entities import as_ids, check_results, find_entities, known_rows
from pmvge.serving.errors import Refused
from pmvge.serving.live_model import Served
from pmvge.serving.schemas import SearchAnswer, SearchRequest, SimilarRequest
from pmvge.serving.settings import Limits


def router(context: Context) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(responses=ERRORS)

    @routes.post("/search", response_model=SearchAnswer)
    async def search(request: SearchRequest) -> Response:
        """Find the best partners of entities, in another view or in the same."""
        return await context.answer(find_partners, request)

    @routes.post("/similar", response_model=SearchAnswer)
    async def similar(request: SimilarRequest) -> Response:
        """Find the entities of the same view with the most similar vectors."""
        return await context.answer(find_similar, request)

    return routes


def find_similar(served: Served, request: SimilarRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/similar``."""
    given = request.model_dump(exclude_unset=True)
    wanted = SearchRequest.model_validate({**given, "among": request.view, "by": "similarity"})
    return find_partners(served, wanted, limits)


def find_partners(served: Served, request: SearchRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/search``."""
    model, view, among = served.model, request.view, request.among
    if request.k > limits.k:
        raise Refused(422, f"k: expected at most {limits.k:,}, got {request.k:,}")
    choose("view", among, model.view_names_, "among", error=InputError)
    if request.by == "intensity":
        choose("view", view, model.view_names_, error=InputError)
        model.log_alpha_of(view, among)
    check_columns(model, among, request.show, "show")
    chunk, notes = find_entities(model, request, limits)
    check_results(len(chunk.ids), min(request.k, len(model.ids_[among])), limits)
    exact = request.index == "exact"
    results = best_partners(
        model,
        model.index(among, among=view) if exact else served.saved_index(among, view),
        chunk,
        k=request.k,
        by=request.by,
        filters={
            "exclude": "known" if request.exclude_known else "self",
            "allow": None if request.allow is None else as_ids(request.allow),
            "deny": None if request.deny is None else as_ids(request.deny),
            "min_weight": request.min_weight,
        },
        exposure=request.exposure,
        show=request.show,
    )
    uncalibrated: list[str] = []
    if request.by == "intensity" and not known_rows(model, view, chunk).all():
        uncalibrated = [kind for kind in model.uncalibrated(view, among) if kind == "new-known"]
    return {
        "view": view,
        "among": among,
        "by": request.by,
        "uncalibrated": uncalibrated,
        "results": results,
        "notes": notes,
    }
