"""What the routes of an application share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi.responses import Response

from pmvge.pages import finite_json
from pmvge.serving.limits import WorkQueue
from pmvge.serving.live_model import LiveModel, Served
from pmvge.serving.metrics import Metrics
from pmvge.serving.schemas import ErrorAnswer
from pmvge.serving.settings import Limits

Work = Callable[[Served, Any, Limits], dict[str, Any]]
STATUSES = {
    400: "Not valid JSON, or not valid HTTP.",
    401: "No token, or a wrong one.",
    403: "A request for another host.",
    408: "The request took too long to arrive.",
    413: "The request is too large.",
    422: "A value is not valid: an unknown view, id or column, a wrong type, too many entities.",
    429: "Too many requests at once.",
    500: "An unexpected error.",
    503: "The server is busy.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text} for status, text in STATUSES.items()
}


@dataclass(frozen=True)
class Context:
    """The model, the threads that compute, the limits and the metrics of a worker."""

    live: LiveModel
    work: WorkQueue
    limits: Limits
    metrics: Metrics

    async def answer(self, work: Work, request: Any) -> Response:
        """Return what ``work`` computes for a request with the model of this moment."""
        served = self.live.served
        content = await self.work.run(_compute, work, served, request, self.limits)
        return json_response(content, served)


def _compute(work: Work, served: Served, request: Any, limits: Limits) -> bytes:
    return to_json({"model": served.label, **work(served, request, limits)})


def json_response(content: bytes, served: Served) -> Response:
    """Return an answer that names the model that gave it."""
    return Response(content, headers={"X-Model": served.label}, media_type="application/json")


def to_json(content: Any) -> bytes:
    """Return JSON; numbers that are not finite become null."""
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        text = json.dumps(finite_json(content), allow_nan=False)
    return text.encode()
