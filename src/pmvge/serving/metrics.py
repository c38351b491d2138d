"""Counts and durations of requests, summed over workers, as Prometheus text."""

from __future__ import annotations

import asyncio
import json
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
OTHER = "other"  # label of paths that are no route: clients choose them


class Metrics:
    """The requests of one worker. Other workers read them from a file in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.requests: Counter[str] = Counter()  # "route status"
        self.buckets: Counter[str] = Counter()  # "route number"
        self.seconds: Counter[str] = Counter()  # by route
        self.folder, self._path = folder, folder / f"metrics-{os.getpid()}.json"
        self._changed = False

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[f"{route} {status}"] += 1
        self.buckets[f"{route} {bisect_left(BOUNDS, seconds)}"] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]
        self._changed = True

    async def keep_saved(self, seconds: float) -> None:
        """Save the counts regularly; a worker that is killed loses those since the last time."""
        while True:
            await asyncio.sleep(seconds)
            if self._changed:
                self.save()

    def save(self) -> None:
        """Write the counts for other workers, and for the time after this one."""
        self._changed = False
        content = json.dumps([self.requests, self.buckets, self.seconds])
        partial = self._path.with_suffix(".partial")
        partial.write_text(content)
        partial.replace(self._path)

    def text(self, facts: Mapping[str, str], gauges: Mapping[str, float]) -> str:
        """Return the counts of all workers in the text format of Prometheus."""
        self.save()
        requests, buckets, seconds = Counter[str](), Counter[str](), Counter[str]()
        for path in sorted(self.folder.glob("metrics-*.json")):
            parts = json.loads(path.read_text())
            for total, part in zip((requests, buckets, seconds), parts, strict=True):
                total.update(part)
        lines = _family("pmvge_requests_total", "counter", "Requests by route and status.")
        for key, count in sorted(requests.items()):
            route, status = key.split()
            lines.append(_sample("pmvge_requests_total", {"route": route, "status": status}, count))
        name = "pmvge_request_seconds"
        lines += _family(name, "histogram", "Duration of requests.")
        for route in sorted(seconds):
            lines += _histogram(name, route, buckets, float(seconds[route]))
        lines += _family("pmvge_model_info", "gauge", "The model that is served.")
        lines.append(_sample("pmvge_model_info", facts, 1))
        for gauge, value in gauges.items():
            lines += [*_family(gauge, "gauge", "Of the worker that answers."), f"{gauge} {value:g}"]
        return "\n".join(lines) + "\n"


def _histogram(name: str, route: str, buckets: Counter[str], total: float) -> list[str]:
    lines, count = [], 0
    for number, bound in enumerate([*(f"{bound:g}" for bound in BOUNDS), "+Inf"]):
        count += buckets[f"{route} {number}"]
        lines.append(_sample(f"{name}_bucket", {"route": route, "le": bound}, count))
    lines.append(_sample(f"{name}_sum", {"route": route}, total))
    return [*lines, _sample(f"{name}_count", {"route": route}, count)]


def _family(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    listed = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return (
        f"{name}{{{listed}}} {value:g}"
        if value != int(value)
        else f"{name}{{{listed}}} {value:.0f}"
    )


class Measured:
    """Count the requests of an application, and how long they take."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Iterable[str]) -> None:
        self.app, self.metrics, self.routes = app, metrics, frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, record)
        finally:
            if status:  # 0: the client has closed the connection
                route = scope["path"] if scope["path"] in self.routes else OTHER
                self.metrics.add(route, status, time.perf_counter() - started)
