"""The files of the page. They hold no data of the model, so they need no token."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import Request
from fastapi.responses import Response

from pmvge.pages import shared_css
from pmvge.serving.errors import Refused

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # ask each time whether the file has changed
}
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
PAGE = "index.html"


@cache
def files() -> dict[str, bytes]:
    """Return the content of the files, by name."""
    folder = resources.files(__package__)
    listed: list[Traversable] = [
        file
        for name in ("static", "vendor")
        for file in folder.joinpath(name).iterdir()
        if _suffix(file.name) in MEDIA_TYPES
    ]
    return {"shared.css": shared_css().encode()} | {file.name: file.read_bytes() for file in listed}


def file_response(name: str, request: Request) -> Response:
    """Return a file; status 304 if the browser has it, and Refused with 404 if there is none."""
    content = files().get(name)
    if content is None:
        raise Refused(404, "unknown file")
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=MEDIA_TYPES[_suffix(name)])


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2]
