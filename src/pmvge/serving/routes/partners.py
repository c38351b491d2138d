"""``/search`` and ``/similar``: the best partners of entities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from pmvge.errors import InputError, choose
from pmvge.model import Index, best_partners, check_columns, index_of_similar
from pmvge.serving.context import ERRORS, Context
from pmvge.serving.entities import check_results, find_entities, known_rows, listed_ids
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
    return _search(served, wanted, limits, lambda: index_of_similar(served.model, request.view))


def find_partners(served: Served, request: SearchRequest, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/search``."""
    view, among = request.view, request.among

    def index() -> Index:
        if request.index == "exact":
            return served.model.index(among, among=view)
        return served.saved_index(among, view)

    return _search(served, request, limits, index)


def _search(
    served: Served, request: SearchRequest, limits: Limits, index: Callable[[], Index]
) -> dict[str, Any]:
    """Return the best partners in an index, which is made after the request was checked."""
    model, view, among = served.model, request.view, request.among
    if request.k > limits.k:
        raise Refused(422, f"k: expected at most {limits.k:,}, got {request.k:,}")
    choose("view", among, model.view_names_, "among", error=InputError)
    if request.by == "intensity":
        choose("view", view, model.view_names_, error=InputError)
        try:
            model.log_alpha_of(view, among)
        except InputError as error:
            raise InputError(f"{error}; by='similarity' ranks any pair") from None
    check_columns(model, among, request.show, "show")
    chunk, notes = find_entities(model, request, limits)
    check_results(len(chunk.ids), min(request.k, len(model.ids_[among])), limits)
    results = best_partners(
        model,
        index(),
        chunk,
        k=request.k,
        by=request.by,
        filters={
            "exclude": "known" if request.exclude_known else "self",
            "allow": listed_ids(model, among, "allow", request.allow),
            "deny": listed_ids(model, among, "deny", request.deny),
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
