"""``/health``, ``/views``, ``/metrics`` and ``/docs``: what the server has and does."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from pmvge.serving.context import ERRORS, Context, json_response, to_json
from pmvge.serving.docs_page import docs_page
from pmvge.serving.live_model import Served
from pmvge.serving.schemas import HealthAnswer, ViewsAnswer
from pmvge.serving.settings import Limits

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
OPENED: dict[int | str, dict[str, Any]] = {
    status: ERRORS[status] for status in (401, 403, 408, 413, 500)
}


def router(context: Context) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(responses=OPENED)

    @routes.get("/health", response_model=HealthAnswer)
    async def health() -> Response:
        """Return whether the server answers; needs no token."""
        served, reload = context.live.served, context.live.current.reload
        content = {"status": "ok", "model": served.label, "reload": reload}
        return json_response(to_json(content), served)

    @routes.get("/views", response_model=ViewsAnswer)
    async def views() -> Response:
        """Return the views of the model, their columns, and the view pairs with links."""
        served = context.live.served
        return json_response(to_json(describe_views(served, context.limits)), served)

    @routes.get(
        "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
    )
    async def metrics() -> Response:
        """Return numbers of requests and their durations, as Prometheus text."""
        facts = {"model": context.live.served.label}
        work = context.work
        gauges = {"pmvge_running": float(work.running), "pmvge_waiting": float(work.waiting)}
        return PlainTextResponse(
            context.metrics.text(facts, gauges), media_type="text/plain; version=0.0.4"
        )

    @routes.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs(request: Request) -> Response:
        """Return the description of the routes as a page without scripts."""
        page = docs_page(request.app.openapi())
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    return routes


def describe_views(served: Served, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/views``."""
    description, tables = served.description, served.model.tables_
    saved = {} if tables is None else tables["views"]
    return {
        "model": served.label,
        "notes": [],
        "n_components": description["n_components"],
        "similarity": description["similarity"],
        "views": {
            view: {
                "n": entry["n"],
                "features": entry["features"],
                "columns": description["tables"].get(view, {}),
                "id": saved[view]["id"] if view in saved else None,
                "name": entry["name"],
                "show": [*entry["columns"], *entry["labels"]],
                "effects": entry["effects"]["kind"],
            }
            for view, entry in description["views"].items()
        },
        "pairs": [entry["pair"] for entry in description["alpha"].values()],
        "limits": {
            "body_bytes": limits.body,
            "batch": limits.batch,
            "k": limits.k,
            "results": limits.results,
        },
    }
