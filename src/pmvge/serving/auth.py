"""Who may use a server: clients with its token, or programs of the same machine."""

from __future__ import annotations

import hashlib
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from pmvge.serving.errors import Refused
from pmvge.serving.settings import Settings, is_loopback

OPEN = ("/", "/health")  # paths that need no token: they tell nothing of the data
SHELL = "/static/"  # nor do the scripts of the page


class Access:
    """Refuse requests without the token; without a token, those for other names of this host.

    A page in a browser can let its own name point to 127.0.0.1 and then send requests there. Their
    Host header has the name of the page.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self._expected = None if settings.token is None else _digest(settings.token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 403, or call the application."""
        if scope["type"] == "http":
            try:
                self._check(scope["path"], Headers(scope=scope))
            except Refused as refused:
                await refused.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, path: str, headers: Headers) -> None:
        if self.settings.loopback_only and not is_loopback(_host_name(headers.get("host", ""))):
            raise Refused(
                403, "this server is for programs of this machine: expected the host localhost"
            )
        if self._expected is None or path in OPEN or path.startswith(SHELL):
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # Digests have one length, so that the time does not depend on the token.
        given = _digest(token.strip().encode("latin-1", "replace"))
        if not hmac.compare_digest(given, self._expected) or scheme.lower() != "bearer":
            raise Refused(
                401,
                "expected the header Authorization: Bearer with the token of this server",
                {"WWW-Authenticate": "Bearer"},
            )


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _host_name(header: str) -> str:
    """Return the name in a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0].strip("[")
    return header.partition(":")[0].lower()
