"""Errors as answers: one JSON object with one sentence."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from pmvge.errors import PmvgeError, StorageError, one_line, truncate

log = logging.getLogger("pmvge.serving")
MAX_LENGTH = 600  # of a sentence: a name in it can be as long as a request
SENTENCES = {
    400: "the request is not valid JSON",
    404: "unknown path: GET /docs lists the paths",
    405: "this path takes another method: GET /docs lists them",
}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers or {}

    def response(self) -> Response:
        """Return the answer."""
        return error_response(self.status, self.sentence, self.headers)


def error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """Return an answer with one sentence."""
    content = json.dumps({"error": truncate(" ".join(sentence.split()), MAX_LENGTH)})
    return Response(content, status, headers, "application/json")


def add_handlers(app: FastAPI) -> None:
    """Answer every exception of a route with one sentence; unexpected ones are logged."""

    async def refused(_: Request, error: Any) -> Response:
        return error.response()  # type: ignore[no-any-return]

    async def of_input(_: Request, error: Any) -> Response:
        if isinstance(error, StorageError):  # its message has a path
            return await unexpected(_, error)
        return error_response(422, one_line(error, MAX_LENGTH))

    async def of_http(_: Request, error: Any) -> Response:
        sentence = SENTENCES.get(error.status_code, str(error.detail))
        return error_response(error.status_code, sentence, error.headers)

    async def of_validation(_: Request, error: Any) -> Response:
        status, sentence = describe_validation(error)
        return error_response(status, sentence)

    async def unexpected(_: Request, error: Exception) -> Response:
        log.error("unexpected error in a request", exc_info=error)
        return error_response(500, "unexpected error: the log of the server has the details")

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(PmvgeError, of_input)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_validation)
    app.add_exception_handler(Exception, unexpected)


def describe_validation(error: RequestValidationError) -> tuple[int, str]:
    """Return the status and the sentence of a request that does not have the expected form."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", "")).lower()
        return 400, f"the request is not valid JSON: {reason} at character {first['loc'][-1]}"
    where = ".".join(str(part) for part in first["loc"][1:])
    reason = first.get("ctx", {}).get("error")
    message = str(reason) if reason is not None else str(first["msg"])
    message = message[:1].lower() + message[1:]
    if not where:
        return 422, f"expected a JSON object with content type application/json: {message}"
    return 422, f"{where}: {message}"
