"""``/embed`` and ``/fold-in``: vectors of known and new entities."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from pmvge.serving.context import ERRORS, Context
from pmvge.serving.entities import find_entities, known_rows
from pmvge.serving.live_model import Served
from pmvge.serving.schemas import EmbedRequest, FoldInRequest, VectorsAnswer
from pmvge.serving.settings import Limits


def router(context: Context) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(responses=ERRORS)

    @routes.post("/embed", response_model=VectorsAnswer)
    async def embed(request: EmbedRequest) -> Response:
        """Return the vectors of known entities, or of new ones from their features."""
        return await context.answer(embed_entities, request)

    @routes.post("/fold-in", response_model=VectorsAnswer)
    async def fold_in(request: FoldInRequest) -> Response:
        """Return the vectors of new entities from their features and first links."""
        return await context.answer(embed_entities, request)

    return routes


def embed_entities(
    served: Served, request: EmbedRequest | FoldInRequest, limits: Limits
) -> dict[str, Any]:
    """Return the answer of ``/embed`` and ``/fold-in``."""
    model, view = served.model, request.view
    chunk, notes = find_entities(model, request, limits)
    if isinstance(request, FoldInRequest):
        vectors = model.fold_in(
            view, chunk.X, ids=chunk.given_ids, links=chunk.links, exposure=request.exposure
        )
    else:
        vectors = model.embed(view, chunk.X, ids=chunk.given_ids)
    return {
        "view": view,
        "ids": chunk.ids.tolist(),
        "known": known_rows(model, view, chunk).tolist(),
        "vectors": vectors.tolist(),
        "notes": notes,
    }
