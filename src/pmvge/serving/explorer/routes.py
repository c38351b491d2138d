"""The routes of the page and of its data."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from pmvge.serving.context import ERRORS, Context
from pmvge.serving.errors import Refused
from pmvge.serving.explorer import answers, forms
from pmvge.serving.explorer.atlas import Atlas, Atlases
from pmvge.serving.explorer.shell import PAGE, file_response
from pmvge.serving.live_model import Served
from pmvge.serving.map_keeper import read_state
from pmvge.serving.settings import Limits

Explore = Callable[[Atlas, Any, Limits], dict[str, Any]]
BINARY = "application/octet-stream"
NO_MAP = "no map: pmvge explore computes one"


def router(context: Context) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(responses=ERRORS)
    atlases = Atlases()

    async def answer(work: Explore, request: Any) -> Response:
        def compute(served: Served, request: Any, limits: Limits) -> dict[str, Any]:
            return work(atlases.of(served), request, limits)

        return await context.answer(compute, request)

    @routes.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page(request: Request) -> Response:
        """Return the page."""
        return file_response(PAGE, request)

    @routes.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        """Return a script or a style sheet of the page."""
        return file_response(name, request)

    @routes.get("/explore/model", response_model=forms.ModelAnswer)
    async def model() -> Response:
        """Return the views of the model, what can be shown of them, and facts of the map."""
        return await answer(_describe, context)

    @routes.get(
        "/explore/points", response_class=Response, responses={200: {"content": {BINARY: {}}}}
    )
    async def points(request: Request) -> Response:
        """Return x and y of all entities, view after view, as float32 in little-endian order."""
        served = context.live.served
        atlas = await context.work.run(atlases.of, served)
        if atlas.map is None:
            raise Refused(422, NO_MAP)
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {
            "X-Model": served.label,
            "ETag": f'"{served.label}-{atlas.id}{"-gzip" if packed else ""}"',
            "Cache-Control": "private, no-cache",
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        content = atlas.points
        if packed:
            content = await context.work.run(_compress, atlas)
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers, media_type=BINARY)

    @routes.post("/explore/find", response_model=forms.FindAnswer)
    async def find(request: forms.FindRequest) -> Response:
        """Find entities by the beginning or a part of their id or name."""
        return await answer(answers.find, request)

    @routes.post("/explore/names", response_model=forms.NamesAnswer)
    async def names(request: forms.NamesRequest) -> Response:
        """Return ids and names of entities by their positions."""
        return await answer(answers.names, request)

    @routes.post("/explore/colors", response_model=forms.ColorsAnswer)
    async def colors(request: forms.ColorsRequest) -> Response:
        """Return colours of the entities of a view by a column."""
        return await answer(answers.colors, request)

    @routes.post("/explore/entity", response_model=forms.EntityAnswer)
    async def entity(request: forms.EntityRequest) -> Response:
        """Return an entity, its partners in every view and similar ones."""
        return await answer(answers.entity, request)

    @routes.post("/explore/new", response_model=forms.EntityAnswer)
    async def new(request: forms.NewRequest) -> Response:
        """Return partners of a new entity, similar ones, and its place on the map."""
        return await answer(answers.new, request)

    return routes


def _describe(atlas: Atlas, context: Context, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/explore/model``."""
    drawn = atlas.map
    state, reason = ("ready", "") if drawn is not None else read_state(context.live.cache)
    return {
        "state": state or "missing",
        "reason": reason or atlas.problem if drawn is None else "",
        "reload": context.live.current.reload,
        "notes": [],
        "map": drawn
        and {
            "id": atlas.id,
            "n": len(atlas.points) // 8,
            "method": drawn.method,
            "partner_share": drawn.partner_share,
            "plain_share": drawn.plain_share,
        },
        "views": atlas.views,
        "pairs": [entry["pair"] for entry in atlas.served.description["alpha"].values()],
        "links": atlas.model.links_ is not None,
    }


def _compress(atlas: Atlas) -> bytes:
    return gzip.compress(atlas.points, compresslevel=1, mtime=0)
