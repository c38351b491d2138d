"""The settings of a server."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from pmvge.errors import InputError, ParameterError

MIN_TOKEN = 16  # characters


@dataclass(frozen=True)
class Limits:
    """Bounds on what one request, and all requests together, may use."""

    body: int = 4 << 20  # bytes of a request
    batch: int = 256  # entities of a request
    k: int = 1000  # partners of an entity
    explained: int = 16  # pairs of entities that a request explains
    results: int = 100_000  # partners, or pairs of entities, in an answer
    running: int = 2  # requests computed at once, by each worker
    waiting: int = 64  # requests that wait for that, in each worker
    wait_seconds: float = 10.0  # how long they wait
    body_seconds: float = 20.0  # how long a client may take to send a request


@dataclass(frozen=True)
class Settings:
    """What the workers of a server share. ``cache`` is the folder of the published model."""

    cache: Path
    limits: Limits = Limits()
    token: str | None = None
    loopback_only: bool = False  # refuse other names of this host: a web page could use them
    poll_seconds: float = 0.5


def is_loopback(host: str) -> bool:
    """Return whether a host name is this machine's alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """Return the token in a file; raise InputError unless it is one line of visible characters."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file: {path}: cannot be read: {error}") from error
    if len(text) < MIN_TOKEN or not (text.isascii() and text.isprintable()) or " " in text:
        raise InputError(
            f"--token-file: {path}: expected one line of at least {MIN_TOKEN} visible ASCII "
            "characters without blanks; openssl rand -hex 32 prints one"
        )
    return text


def check_access(host: str, token: str | None, insecure: bool) -> None:
    """Raise ParameterError if other machines could reach a server that has no token."""
    if token is None and not insecure and not is_loopback(host):
        raise ParameterError(
            f"--host {host}: other machines can connect: expected --token-file, or --insecure if "
            "everybody who can connect may use the model"
        )
