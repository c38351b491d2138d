"""Build the application that a worker runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from pmvge.serving.auth import Access
from pmvge.serving.context import Context
from pmvge.serving.errors import add_handlers
from pmvge.serving.explorer import router as explorer
from pmvge.serving.limits import BodyLimit, WorkQueue
from pmvge.serving.live_model import LiveModel
from pmvge.serving.logs import flush_log
from pmvge.serving.metrics import Measured, Metrics
from pmvge.serving.routes import about, partners, vectors, weights
from pmvge.serving.settings import Settings

DESCRIPTION = (
    "Answers of a fitted multi-view graph embedding: partners, vectors and expected weights of "
    "entities. Known entities are given by ids or names, new ones by rows with the columns of the "
    "training table. An error is one JSON object with one sentence."
)


def build_app(settings: Settings) -> ASGIApp:
    """Return the application, with the model that is published in ``settings.cache``.

    Raise StorageError if none is published.
    """
    live = LiveModel(settings.cache)
    metrics = Metrics(settings.cache)
    context = Context(live, WorkQueue(settings.limits), settings.limits, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        live.watch(settings.poll_seconds)
        saving = asyncio.create_task(metrics.keep_saved(settings.poll_seconds))
        yield
        saving.cancel()
        live.close()
        context.work.close()
        metrics.save()
        flush_log()

    app = FastAPI(
        title="pmvge",
        version="1",  # of this interface, not of the package
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    add_handlers(app)
    for routes in (partners, vectors, weights, about):
        app.include_router(routes.router(context))
    app.include_router(explorer(context))
    limited = BodyLimit(app, settings.limits)
    names = [*app.openapi()["paths"], "/", "/docs", "/openapi.json"]
    return Measured(Access(limited, settings), metrics, names)
