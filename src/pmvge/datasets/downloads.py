"""Downloads of files from their publishers, and the folder that they are stored in.

A file is streamed into a ``.partial`` file beside its target, verified, and then renamed to the
target in one step. On any failure an existing target is kept, and the partial file and all new
folders are removed.
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

CHUNK_BYTES = 1 << 16
OnDownload = Callable[[int, int | None], None]  # called with bytes so far, and the total if known


def data_folder() -> Path:
    """Return ``$PMVGE_DATA``, or else the user's data folder; each data set has a folder in it.

    Raise InputError if neither is known.
    """
    try:
        if given := os.environ.get("PMVGE_DATA"):
            return Path(given).expanduser()
        return _user_folder() / "pmvge"
    except RuntimeError as error:  # neither HOME nor a password entry for the user
        raise InputError(f"data folder: {error} Set PMVGE_DATA to a folder") from error


def _user_folder() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The specification says that relative paths are ignored.
    return xdg if xdg.is_absolute() else Path.home() / ".local" / "share"


def download(
    url: str,
    target: Path,
    verify: Callable[[Path], None],
    on_progress: OnDownload | None = None,
    *,
    max_bytes: int,
    timeout: float = 30.0,
    allowed: tuple[str, ...] = ("https://",),
) -> None:
    """Download ``url`` to ``target``; ``verify`` raises InputError if it is not the expected file.

    ``url``, and any address that it redirects to, must start with one of ``allowed``. ``timeout``
    is the longest wait for the server's next bytes, in seconds. Raise InputError if the download
    fails.
    """
    if not url.startswith(allowed):
        raise InputError(f"{url}: expected an address that starts with {' or '.join(allowed)}")
    target = target.absolute()
    # The process id keeps processes that download the same file from writing to one partial file.
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    new_folders: list[Path] = []
    try:
        new_folders = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            for chunk, done, total in _chunks(url, target, max_bytes, timeout, allowed):
                stream.write(chunk)
                if on_progress is not None:
                    on_progress(done, total)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            verify(partial)
        except InputError as error:
            raise InputError(f"{url}: the download is not the expected file: {error}") from error
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error}") from error
    finally:
        with suppress(OSError):  # no partial file, for example after the rename
            partial.unlink()
        with suppress(OSError):  # a folder that is not empty, for example because of the target
            for folder in new_folders:
                folder.rmdir()


def _chunks(
    url: str, target: Path, max_bytes: int, timeout: float, allowed: tuple[str, ...]
) -> Iterator[tuple[bytes, int, int | None]]:
    """Yield chunks of the content, each with the bytes so far and the total if known.

    Raise InputError on network errors, with the address and what to do.
    """
    done = 0
    request = Request(url, headers={"User-Agent": f"pmvge/{__version__}"})
    try:
        with build_opener(_Redirects(allowed)).open(request, timeout=timeout) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while max(done, total or 0) <= max_bytes and (chunk := response.read(CHUNK_BYTES)):
                done += len(chunk)
                yield chunk, done, total
    except HTTPError as error:
        error.close()
        raise _failed(url, target, f"cannot be downloaded: {error}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        problem = f"the download stopped after {done:,} bytes" if done else "cannot be reached"
        raise _failed(url, target, f"{problem}: {reason}") from error
    if (size := max(done, total or 0)) > max_bytes:
        raise InputError(f"{url}: expected at most {max_bytes:,} bytes, got {size:,} or more")
    # http.client does not raise if the connection is closed early.
    if total is not None and done != total:
        raise _failed(url, target, f"the download stopped after {done:,} of {total:,} bytes")


class _Redirects(HTTPRedirectHandler):
    """A handler that follows redirects to allowed addresses only, so not from https to http."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.startswith(self._allowed):
            reason = f"redirected to {newurl}, expected {' or '.join(self._allowed)}"
            raise HTTPError(req.full_url, code, reason, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _failed(url: str, target: Path, reason: str) -> InputError:
    return InputError(f"{url}: {reason}; or download it by hand and save it as {target}")
