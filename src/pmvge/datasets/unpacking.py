"""Safe reading and unpacking of downloaded archives.

An archive is refused, before anything is written, if the path of a member leads out of the
archive's folder, if a member is neither a file nor a folder, or if there are more bytes or members
than expected. Unpacking is atomic: the new folder is complete, or nothing changes.
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

CHUNK_BYTES = 1 << 20
MAX_MEMBERS = 10_000
MAX_HEADER_BYTES = 2048 * MAX_MEMBERS  # bytes of a tar archive beside its files: headers, padding
# Exceptions that a damaged archive raises. RuntimeError: a password, or an unknown compression.
DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, UnicodeError,
    RuntimeError,
)  # fmt: skip
OPENERS: dict[bytes, Callable[[Path], Any]] = {  # by the first bytes of a compressed file
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
ADVICE = "do not use it; download it again from its publisher"


def read_files(path: Path, names: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
    """Return the content of files in a zip or tar archive, by file name in any folder.

    Nothing is written. Raise InputError if a file is missing, if the archive is damaged or unsafe,
    or if its files have more than ``max_bytes`` bytes together.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                packed = _zip_files(archive, max_bytes)
                return {name: archive.read(packed[_path_of(name, packed)]) for name in names}
        _check_tar_size(path, max_bytes)
        with tarfile.open(path) as tar:
            files = _tar_files(tar, max_bytes)
            streams = {name: tar.extractfile(files[_path_of(name, files)]) for name in names}
            return {name: stream.read() for name, stream in streams.items() if stream is not None}
    except DAMAGED as error:
        raise InputError(
            f"not a zip or tar archive, or a damaged one: {one_line(error)}"
        ) from error


def unpack(
    archives: Sequence[Path], target: Path, *, needed: Sequence[str], max_bytes: int
) -> None:
    """Extract the top folder named like ``target`` from zip archives to ``target``, atomically.

    ``needed`` are files that it must contain; ``max_bytes`` limits the size of all files together.
    Other top folders, such as ``__MACOSX``, are skipped. On any failure an existing ``target`` is
    kept and temporary files are removed; if the process is killed while it replaces the folder, the
    next call restores it. An existing ``target`` with files that are not in the archives is not
    replaced. Raise InputError if anything fails.
    """
    target = target.absolute()
    try:
        _restore(target)
        names = _check(archives, target.name, needed, max_bytes)
        _refuse_other_files(target, names)
        work = Path(mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        try:
            bytes_left = max_bytes
            for path in archives:
                with _opened(path) as archive:
                    for name, info in _inside(archive, target.name, max_bytes).items():
                        bytes_left -= _write(archive, info, work / "new" / name, bytes_left)
            _replace(work / "new", target, backup=work / "old")
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"{target}: cannot unpack {_listed(archives)}: {error}; check the files and the disk "
            "space, or choose another data folder"
        ) from error


def _zip_files(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    files, size = {}, 0
    for number, info in enumerate(archive.infolist(), start=1):
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archive does not record it
        plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
        size += info.file_size
        # The name as stored: zipfile changes ``filename``, differently on each system.
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


def _check_tar_size(path: Path, max_bytes: int) -> None:
    """Raise InputError if a compressed tar archive has too many bytes, headers included.

    tarfile reads complete headers into memory: count all bytes before it opens the archive.
    """
    with path.open("rb") as stream:
        start = stream.read(6)
    opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), None)
    if opener is None:
        return  # not compressed
    done = 0
    with opener(path) as unpacked:
        try:
            while chunk := unpacked.read(CHUNK_BYTES):
                done += len(chunk)
                if done > max_bytes + MAX_HEADER_BYTES:
                    raise _too_large(max_bytes)
        except OSError as error:
            if error.errno is not None:
                raise
            raise tarfile.ReadError(str(error)) from error  # gzip and bz2 raise it for damaged data


def _refuse(name: str, plain: bool, number: int, size: int, max_bytes: int) -> None:
    """Raise InputError if a member is unsafe, or if there are too many members or bytes."""
    outside = PureWindowsPath(name).anchor or ".." in name.split("/")
    # Backslash: Windows' separator. Colon: its drives and streams. NUL: the end of a name in C.
    if outside or any(mark in name for mark in "\\:\0"):
        raise InputError(f"member {name!r} leads out of the archive's folder; {ADVICE}")
    if not plain:
        raise InputError(
            f"member {name!r}: expected a file or a folder, got a link or a device; {ADVICE}"
        )
    if number > MAX_MEMBERS:
        raise InputError(f"expected at most {MAX_MEMBERS:,} files and folders, got more; {ADVICE}")
    if size > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> InputError:
    return InputError(f"expected at most {max_bytes:,} bytes when unpacked, got more; {ADVICE}")


def _path_of(name: str, members: Mapping[str, object]) -> str:
    """Return the path of the first member with a file name."""
    for path in members:
        if PurePosixPath(path).name == name:
            return path
    raise InputError(f"{name} is not in the archive")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; errors in the context name its path."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except DAMAGED as error:
        raise InputError(
            f"{path}: not a zip archive, or a damaged one: {one_line(error)}; {ADVICE}"
        ) from error


def _inside(archive: zipfile.ZipFile, top: str, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Return the files in the archive's folder ``top``, by their paths relative to it."""
    files = _zip_files(archive, max_bytes)
    parts = {PurePosixPath(name).parts: info for name, info in files.items()}
    return {"/".join(p[1:]): info for p, info in parts.items() if len(p) > 1 and p[0] == top}


def _check(archives: Sequence[Path], top: str, needed: Sequence[str], max_bytes: int) -> set[str]:
    """Return the paths of all files that will be extracted; raise InputError if one is missing."""
    names, size = set(), 0
    for path in archives:
        with _opened(path) as archive:
            files = _inside(archive, top, max_bytes)
            names |= set(files)
            size += sum(info.file_size for info in files.values())
            if size > max_bytes:
                raise _too_large(max_bytes)
    if missing := [name for name in needed if name not in names]:
        raise InputError(f"{_listed(archives)}: {top}/{missing[0]} is missing; {ADVICE}")
    return names


def _refuse_other_files(target: Path, names: set[str]) -> None:
    """Raise InputError if ``target`` is a file, or a folder with files other than ``names``."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: expected a folder, got a file; move it away")
    for path in target.rglob("*"):
        folder = path.is_dir() and not path.is_symlink()
        if not folder and path.relative_to(target).as_posix() not in names:
            raise InputError(
                f"{target}: expected only files of the archives in a folder to replace, got "
                f"{path.name}; move it away"
            )


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, max_bytes: int) -> int:
    """Write one file and return its bytes; count them, as sizes in the archive may be wrong."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = 0
    with archive.open(info) as source, path.open("wb") as sink:
        while chunk := source.read(CHUNK_BYTES):
            done += len(chunk)
            if done > max_bytes:
                raise InputError(f"{info.filename} has more bytes than expected; {ADVICE}")
            sink.write(chunk)
        sink.flush()
        os.fsync(sink.fileno())
    return done


def _replace(new: Path, target: Path, *, backup: Path) -> None:
    """Rename ``new`` to ``target``; an existing target becomes ``backup`` first.

    A folder cannot be replaced in one step; if the second rename fails, the backup is restored.
    """
    try:
        if target.exists():
            target.rename(backup)
        new.rename(target)
    except BaseException:  # including KeyboardInterrupt
        if backup.exists() and not target.exists():
            backup.rename(target)
        raise


def _restore(target: Path) -> None:
    """Restore the backup of a process that was killed between the two renames of ``_replace``."""
    if target.exists():
        return
    backups = target.parent.glob(f".{glob.escape(target.name)}.{'?' * 8}.partial/old")
    if latest := max(backups, key=lambda old: old.parent.stat().st_mtime, default=None):
        latest.rename(target)
        shutil.rmtree(latest.parent, ignore_errors=True)


def _listed(archives: Sequence[Path]) -> str:
    return " and ".join(str(path) for path in archives)
