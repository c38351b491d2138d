"""Archives that others packed: looked through first, then read, or unpacked whole or not at all.

An archive is refused, before anything of it is written, if a member's path leads out of its folder,
if a member is neither a file nor a folder, or if there are more bytes or members in it than
expected.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import mkdtemp
from typing import Any

from pmvge.errors import InputError, one_line

BLOCK = 1 << 20
MEMBERS = 10_000
HEADERS = 2048 * MEMBERS  # bytes of a tar archive beside its files: headers, and what fills blocks
# RuntimeError: a password, or a compression that zipfile does not know.
DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, UnicodeError,
    RuntimeError,
)  # fmt: skip
PACKED: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
AGAIN = "do not use it, and get it again from its publisher"


def read_files(path: Path, names: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
    """Files of a zip or tar archive by their names, in whichever of its folders; writes nothing.

    ``max_bytes`` is the most that all files of the archive may have.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                packed = _zip_files(archive, max_bytes)
                return {name: archive.read(packed[_named(name, packed)]) for name in names}
        _count(path, max_bytes)
        with tarfile.open(path) as tar:
            files = _tar_files(tar, max_bytes)
            streams = {name: tar.extractfile(files[_named(name, files)]) for name in names}
            return {name: stream.read() for name, stream in streams.items() if stream is not None}
    except DAMAGED as error:
        raise InputError(
            f"not a zip or tar archive, or a damaged one: {one_line(error)}"
        ) from error


def unpack(
    archives: Sequence[Path], target: Path, *, needed: Sequence[str], max_bytes: int
) -> None:
    """Make a folder of what zip archives hold in one of that name, whole or not at all.

    ``needed`` are files that must be in it, ``max_bytes`` is the most that all files may have.
    Whatever else the archives hold, such as a system's own ``__MACOSX``, is left out. Whatever
    fails, an older folder stays as it was and nothing is left behind; if the process is killed at
    the moment of replacing it, the next call puts it back. One that holds more than the archives do
    is not replaced: somebody put it there.
    """
    target = target.absolute()
    try:
        _put_back(target)
        names = _check(archives, target.name, needed, max_bytes)
        _refuse_others(target, names)
        work = Path(mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        try:
            left = max_bytes
            for path in archives:
                with _opened(path) as archive:
                    for name, info in _inside(archive, target.name, max_bytes).items():
                        left -= _write(archive, info, work / "new" / name, left)
            _put(work / "new", target, aside=work / "old")
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"{target}: cannot unpack {_listed(archives)}: {error}; make room for it, or choose "
            "another data folder"
        ) from error


def _zip_files(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    files, size = {}, 0
    for number, info in enumerate(archive.infolist(), start=1):
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was packed without one
        plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
        size += info.file_size
        # The name as packed: ``filename`` is mended, differently on every system.
        _refuse(info.orig_filename, plain, number, size, max_bytes)
        if not info.is_dir():
            files[info.filename] = info
    return files


def _tar_files(tar: tarfile.TarFile, max_bytes: int) -> dict[str, tarfile.TarInfo]:
    files, size = {}, 0
    for number, info in enumerate(tar, start=1):
        size += info.size
        _refuse(info.name, info.isfile() or info.isdir(), number, size, max_bytes)
        if info.isfile():
            files[info.name] = info
    return files


def _count(path: Path, max_bytes: int) -> None:
    """A tar archive's headers are packed, too, and read whole: all bytes are counted first."""
    with path.open("rb") as stream:
        start = stream.read(6)
    opened = next((way for mark, way in PACKED.items() if start.startswith(mark)), None)
    if opened is None:
        return  # as large as its file
    done = 0
    with opened(path) as unpacked:
        try:
            while block := unpacked.read(BLOCK):
                done += len(block)
                if done > max_bytes + HEADERS:
                    raise _too_large(max_bytes)
        except OSError as error:
            if error.errno is not None:
                raise
            raise tarfile.ReadError(str(error)) from error  # what gzip and bz2 say of damage


def _refuse(name: str, plain: bool, number: int, size: int, max_bytes: int) -> None:
    outside = PureWindowsPath(name).anchor or ".." in name.split("/")
    # Another system's separator, a drive or stream of Windows, the end of a name in C.
    if outside or any(mark in name for mark in "\\:\0"):
        raise InputError(f"member {name!r} leads out of the archive's folder: {AGAIN}")
    if not plain:
        raise InputError(f"member {name!r} is a link or a device, expected a file: {AGAIN}")
    if number > MEMBERS:
        raise InputError(f"expected at most {MEMBERS:,} files and folders, got more: {AGAIN}")
    if size > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> InputError:
    return InputError(f"expected at most {max_bytes:,} bytes when unpacked, got more: {AGAIN}")


def _named(wanted: str, names: Mapping[str, object]) -> str:
    for name in names:
        if PurePosixPath(name).name == wanted:
            return name
    raise InputError(f"{wanted} is not in the archive")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive; what is wrong with it is said of this path."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except DAMAGED as error:
        raise InputError(
            f"{path}: not a zip archive, or a damaged one: {one_line(error)}: {AGAIN}"
        ) from error


def _inside(archive: zipfile.ZipFile, top: str, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The files in the archive's folder ``top``, by their paths from there on."""
    files = _zip_files(archive, max_bytes)
    parts = {PurePosixPath(name).parts: info for name, info in files.items()}
    return {"/".join(p[1:]): info for p, info in parts.items() if len(p) > 1 and p[0] == top}


def _check(archives: Sequence[Path], top: str, needed: Sequence[str], max_bytes: int) -> set[str]:
    """The files that there will be."""
    names, size = set(), 0
    for path in archives:
        with _opened(path) as archive:
            files = _inside(archive, top, max_bytes)
            names |= set(files)
            size += sum(info.file_size for info in files.values())
            if size > max_bytes:
                raise _too_large(max_bytes)
    if missing := [name for name in needed if name not in names]:
        raise InputError(f"{_listed(archives)}: {top}/{missing[0]} is not in there: {AGAIN}")
    return names


def _refuse_others(target: Path, names: set[str]) -> None:
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: expected a folder, got a file: move it away")
    for path in target.rglob("*"):
        folder = path.is_dir() and not path.is_symlink()
        if not folder and path.relative_to(target).as_posix() not in names:
            raise InputError(
                f"{target}: a new folder would take its place, but it holds {path.name}, which is "
                "not in the archives: move one of them away"
            )


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, left: int) -> int:
    """Write one file; its bytes are counted, whatever the archive says of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = 0
    with archive.open(info) as source, path.open("wb") as sink:
        while block := source.read(BLOCK):
            done += len(block)
            if done > left:
                raise InputError(f"{info.filename} has more bytes than expected: {AGAIN}")
            sink.write(block)
        sink.flush()
        os.fsync(sink.fileno())
    return done


def _put(new: Path, target: Path, *, aside: Path) -> None:
    """Replace a folder: no system does it in one step if there is an older one."""
    try:
        if target.exists():
            target.rename(aside)
        new.rename(target)
    except BaseException:  # Ctrl-C as well
        if aside.exists() and not target.exists():
            aside.rename(target)
        raise


def _put_back(target: Path) -> None:
    """Mend what a process left that was killed between the two steps of ``_put``."""
    if target.exists():
        return
    left = target.parent.glob(f".{glob.escape(target.name)}.{'?' * 8}.partial/old")
    if orphan := max(left, key=lambda old: old.parent.stat().st_mtime, default=None):
        orphan.rename(target)
        shutil.rmtree(orphan.parent, ignore_errors=True)


def _listed(archives: Sequence[Path]) -> str:
    return " and ".join(str(path) for path in archives)
