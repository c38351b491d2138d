"""Files from their publishers: where they are kept, and how they get there whole or not at all.

A file is streamed into a ``.partial`` beside its target, verified there, and then put in the
target's place in one step. Whatever fails, an older target stays, and nothing is left behind: no
partial, and no folder that was made for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pmvge.errors import InputError
from pmvge.version import __version__

BLOCK = 1 << 16
Progress = Callable[[int, int | None], None]  # bytes so far, and of how many if that is known


def data_folder() -> Path:
    """``$PMVGE_DATA``, or else the user's own data folder; each data set has a folder in it."""
    try:
        if given := os.environ.get("PMVGE_DATA"):
            return Path(given).expanduser()
        return _user_folder() / "pmvge"
    except RuntimeError as error:  # no HOME, and no entry for the user
        raise InputError(f"data folder: {error} Set PMVGE_DATA to a folder for data") from error


def _user_folder() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    # Its specification has relative paths ignored.
    return xdg if xdg.is_absolute() else Path.home() / ".local" / "share"


def download(
    url: str,
    target: Path,
    verify: Callable[[Path], None],
    progress: Progress | None = None,
    *,
    max_bytes: int,
    timeout: float = 30.0,
    allowed: tuple[str, ...] = ("https://",),
) -> None:
    """Fetch ``url`` to ``target``; ``verify`` raises InputError if the file is not the right one.

    ``allowed`` are the beginnings that ``url``, and whatever it redirects to, may have. ``timeout``
    is the longest wait, in seconds, for the server's next bytes.
    """
    if not url.startswith(allowed):
        raise InputError(f"{url}: expected an address that starts with {' or '.join(allowed)}")
    target = target.absolute()
    # Its own name for every process: two that fetch one file do not write into each other's.
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    made: list[Path] = []
    try:
        made = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            for block, done, total in _blocks(url, target, max_bytes, timeout, allowed):
                stream.write(block)
                if progress is not None:
                    progress(done, total)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            verify(partial)
        except InputError as error:
            raise InputError(f"{url}: not the file that was expected: {error}") from error
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error}") from error
    finally:
        with suppress(OSError):  # such as a file where the folder should be
            partial.unlink()
        with suppress(OSError):  # such as a folder that is not empty: the target is there
            for folder in made:
                folder.rmdir()


def _blocks(
    url: str, target: Path, max_bytes: int, timeout: float, allowed: tuple[str, ...]
) -> Iterator[tuple[bytes, int, int | None]]:
    """The content in blocks, each with the bytes so far and in all; network trouble is named."""
    done = 0
    request = Request(url, headers={"User-Agent": f"pmvge/{__version__}"})
    try:
        with build_opener(_Redirects(allowed)).open(request, timeout=timeout) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while max(done, total or 0) <= max_bytes and (block := response.read(BLOCK)):
                done += len(block)
                yield block, done, total
    except HTTPError as error:
        error.close()
        raise _failed(url, target, f"cannot be fetched: {error}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        how = f"broke off after {done:,} bytes" if done else "cannot be reached"
        raise _failed(url, target, f"{how}: {reason}") from error
    if (size := max(done, total or 0)) > max_bytes:
        raise InputError(f"{url}: expected at most {max_bytes:,} bytes, got {size:,} or more")
    # http.client does not mind a connection that is closed early.
    if total is not None and done != total:
        raise _failed(url, target, f"broke off after {done:,} of {total:,} bytes")


class _Redirects(HTTPRedirectHandler):
    """Follows redirects to allowed addresses only: not from https to http."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.startswith(self._allowed):
            why = f"redirected to {newurl}, expected {' or '.join(self._allowed)}"
            raise HTTPError(req.full_url, code, why, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _failed(url: str, target: Path, why: str) -> InputError:
    return InputError(f"{url}: {why}; you can fetch it by hand from there and put it at {target}")
