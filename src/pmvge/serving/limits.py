"""Limits on the size of requests, and on how many are computed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pmvge.serving.errors import Refused
from pmvge.serving.settings import Limits

T = TypeVar("T")
DRAINED = 64 << 20  # bytes of a too large request that are read, so that its client gets an answer


class BodyLimit:
    """Read a request completely before the application does; refuse large and slow ones."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 413 or 408, or call the application with the body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            sentence = f"the request was not complete after {self.limits.body_seconds:g} seconds"
            await Refused(408, sentence, {"Connection": "close"}).response()(scope, receive, send)
            return
        except Refused as refused:
            await refused.response()(scope, receive, send)
            return
        if body is None:  # the client has closed the connection
            return
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body; None if the client closes the connection."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            more = message.get("more_body", False)
            if size <= self.limits.body:
                parts.append(part)
            elif parts:
                parts.clear()
            if size > self.limits.body and (not more or size > DRAINED):
                raise Refused(
                    413,
                    f"expected a request of at most {self.limits.body:,} bytes",
                    {"Connection": "close"},
                )
            if not more:
                return b"".join(parts)


class WorkQueue:
    """Threads that compute answers; at most ``limits.waiting`` requests wait for one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.running = self.waiting = 0
        self._slots = asyncio.Semaphore(limits.running)
        self._threads = ThreadPoolExecutor(limits.running, "pmvge-work")

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return ``function(*arguments)``, computed in a thread.

        Raise Refused with status 429 if too many requests wait already, and 503 if this one has
        waited too long.
        """
        if self._slots.locked() and self.waiting >= self.limits.waiting:
            raise Refused(429, "too many requests at once: try again later", {"Retry-After": "1"})
        self.waiting += 1
        try:
            async with asyncio.timeout(self.limits.wait_seconds):
                await self._slots.acquire()
        except TimeoutError:
            sentence = "the server is busy: the request has waited too long; try again later"
            raise Refused(503, sentence, {"Retry-After": "5"}) from None
        finally:
            self.waiting -= 1
        loop = asyncio.get_running_loop()
        self.running += 1
        future = loop.run_in_executor(self._threads, function, *arguments)
        future.add_done_callback(lambda _: self._finished())  # also if the request is cancelled
        return await asyncio.shield(future)

    def _finished(self) -> None:
        self.running -= 1
        self._slots.release()

    def close(self) -> None:
        """End the threads after the work that runs."""
        self._threads.shutdown(wait=True)
