"""Folders that are replaced atomically: a reader sees the old content or the new, never a mixture.

A folder holds a manifest (JSON) and data files whose names contain their SHA-256. Data files are
written and synced first. Replacing the manifest is the commit. Files that it does not name are then
removed. All files are checked against their SHA-256 when they are read. Pickle is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_native_id
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pmvge.errors import PmvgeError, StorageError, one_line, short

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
# Format 2 adds given_ids, family, effects and the parameters of these names to model.json. A pmvge
# that knows format 1 only would call them damage; by the number it asks for an update instead.
FORMAT = 2
READS = 5  # attempts to read a folder that is being written
T = TypeVar("T")
Write = Callable[[Path], object]
Files = Mapping[str, Mapping[str, Any]]  # label -> name, sha256 and bytes of a data file
Parts = dict[str, Path]  # label -> path of a data file
Load = Callable[[dict[str, Any], Parts], T]


class DamagedValue(PmvgeError):
    """A value in a saved file is not valid. :func:`read` raises StorageError for it."""


def commit(
    folder: Path,
    kind: str,
    content: Mapping[str, Any],
    parts: Mapping[str, Write],
    *,
    keep: bool = False,
) -> None:
    """Write ``parts`` (file name to writer) and a manifest with ``content``, atomically.

    ``kind`` names the manifest, such as "model" for model.json. With ``keep``, the previous commit
    stays readable as the kind "model-before" until the next one. Raise StorageError if writing
    fails; the previous commit is then unchanged.
    """
    make_folder(folder, kind)
    files: dict[str, dict[str, Any]] = {}
    try:
        with _write_lock(folder):
            previous = _committed_files(folder, kind)
            try:
                for label, write in parts.items():
                    files[label] = _write_part(folder, label, write)
                _write_manifest(
                    folder, kind, {**content, "files": files}, keep=keep and bool(previous)
                )
            except (Exception, KeyboardInterrupt):
                _remove_uncommitted(folder, kind, parts, files)  # frees space on a full disk
                raise
            _remove_obsolete(folder, kind, files, previous, keep=keep)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise StorageError(f"{folder}: cannot write the {kind}: {error}") from error


def remove(folder: Path, kind: str) -> None:
    """Remove all files of a kind, and the folder if it is then empty.

    Manifests are removed first: an interrupted removal leaves data files, but no manifest.
    """
    with suppress(OSError), _write_lock(folder):
        named = sorted(_named_files(folder, kind))
        for name in (f"{kind}.json", f"{kind}-before.json", *named):
            (folder / Path(name).name).unlink(missing_ok=True)
        folder.rmdir()


def restore_previous(folder: Path, kind: str) -> None:
    """Make the previous commit, which ``keep`` preserved, the current one.

    Do nothing if the folder cannot be written.
    """
    with suppress(OSError), _write_lock(folder):
        _copy_manifest(folder, f"{kind}-before", kind)


def replace_file(path: Path, write: Write) -> None:
    """Write a single file atomically; ``write`` is called with the path of a temporary file.

    Processes and threads may write the same file: each has a temporary file of its own. Raise
    StorageError if writing fails; the previous file is then unchanged.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{get_native_id()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(partial, write)
        partial.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def file_name(view: str) -> str:
    """Return a file name for a view: percent-encoded, and with a hash if it has to be shortened."""
    name = quote(view, safe="")
    if len(name) > 80:  # file systems limit the length of names
        name = f"{name[:60]}-{hashlib.sha256(view.encode()).hexdigest()[:16]}"
    return name


def make_folder(folder: Path, kind: str) -> Path:
    """Create the folder if it does not exist, and return it.

    Raise StorageError if it cannot be created; ``kind`` names what is written to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot write the {kind}: {error}") from error
    return folder


@contextmanager
def _write_lock(folder: Path) -> Iterator[None]:
    """Wait for other writers of the folder. No lock where flock is unavailable."""
    if fcntl is None:
        yield
        return
    with _opened(folder) as descriptor:
        with suppress(OSError):  # not supported by every file system
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_synced(path: Path, write: Write) -> None:
    write(path)
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _write_part(folder: Path, label: str, write: Write) -> dict[str, Any]:
    partial = folder / f".{label}.partial"
    _write_synced(partial, write)
    digest, name = _sha256(partial), Path(label)
    final = partial.replace(folder / f"{name.stem}-{digest[:16]}{name.suffix}")
    return {"name": final.name, "sha256": digest, "bytes": final.stat().st_size}


def _write_manifest(folder: Path, kind: str, content: Mapping[str, Any], *, keep: bool) -> None:
    manifest = {"format": FORMAT, "kind": kind, **content}
    manifest["checksum"] = _checksum(manifest)
    text = json.dumps(manifest, indent=1, allow_nan=False, default=_to_python)
    partial = folder / f".{kind}.json.partial"
    _write_synced(partial, lambda path: path.write_bytes(text.encode()))
    if keep:
        _copy_manifest(folder, kind, f"{kind}-before")
    partial.replace(folder / f"{kind}.json")
    if os.name == "posix":  # elsewhere a folder cannot be opened
        with _opened(folder) as descriptor:
            os.fsync(descriptor)


def _copy_manifest(folder: Path, kind: str, other: str) -> None:
    manifest = (folder / f"{kind}.json").read_bytes()
    partial = folder / f".{other}.json.{os.getpid()}.partial"
    _write_synced(partial, lambda path: path.write_bytes(manifest))
    partial.replace(folder / f"{other}.json")


def _remove_uncommitted(folder: Path, kind: str, parts: Iterable[str], files: Files) -> None:
    """Remove the files of a commit that failed."""
    partial = {f".{name}.partial" for name in (*parts, f"{kind}.json")}
    for name in partial | (
        {entry["name"] for entry in files.values()} - _named_files(folder, kind)
    ):
        with suppress(OSError):
            (folder / name).unlink()


def _remove_obsolete(folder: Path, kind: str, files: Files, previous: Files, *, keep: bool) -> None:
    """Remove files of earlier commits of this kind, and no other files.

    Files of a commit begin with the first word of a label, such as "weights" or "embeddings".
    """
    kept = {entry["name"] for entry in [*files.values(), *(previous.values() if keep else ())]}
    first = {re.split(r"[-.]", label)[0] for label in [*files, *previous]}
    words = "|".join(map(re.escape, sorted(first)))
    started = f"{words}|{re.escape(kind)}"
    obsolete = re.compile(
        rf"({words})(-.+)?-[0-9a-f]{{16}}\.(safetensors|parquet|hnsw)|\.({started})[-.].*partial"
    )
    for path in folder.iterdir():
        if path.name not in kept and obsolete.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _committed_files(folder: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Return the files that the manifest names; none if there is no valid manifest."""
    try:
        return _listed_files(folder, kind, _read_manifest(folder, kind))
    except StorageError:
        return {}


def _named_files(folder: Path, kind: str) -> set[str]:
    """Return the names of the files of the current commit and of the previous one."""
    kinds = (kind, f"{kind}-before")
    return {entry["name"] for k in kinds for entry in _committed_files(folder, k).values()}


def _checksum(manifest: Mapping[str, Any]) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    text = json.dumps(rest, sort_keys=True, default=_to_python)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, hashlib.sha256).hexdigest()


def _to_python(value: Any) -> Any:
    """Convert numpy scalars for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} values cannot be stored")


def exists(folder: Path, kind: str) -> bool:
    """Return whether the folder has a manifest of that kind."""
    return (folder / f"{kind}.json").is_file()


def read(folder: Path, kind: str, load: Load[T]) -> T:
    """Return ``load(manifest, parts)`` of the current commit, after checking all checksums.

    ``parts`` are the paths of the data files by label. Every file is hashed once. If a commit
    during the read removes files, the read starts again with the new manifest, at most ``READS``
    times. A read that succeeds is consistent, because data files are named by their content. The
    kind "model-before" reads the previous commit.

    Raise StorageError if there is no manifest, if a file is missing or damaged, or if ``load``
    raises a PmvgeError or an OSError. Other exceptions of ``load`` are not changed.
    """
    for _ in range(READS):
        raw = _manifest_bytes(folder, kind)
        try:
            manifest = _parse_manifest(folder, kind, raw)
            files = _listed_files(folder, kind, manifest)
            parts = {label: _verified(folder, kind, entry) for label, entry in files.items()}
            return load(manifest, parts)
        except StorageError:
            if _manifest_bytes(folder, kind) == raw:
                raise
        except (PmvgeError, OSError) as error:
            if _manifest_bytes(folder, kind) == raw:
                raise StorageError(f"{folder}: {_reason(kind, error)}") from error
    raise StorageError(
        f"{folder}: the {kind} changed during all {READS} attempts to read it; try again when no "
        "process is saving it"
    )


def find_part(parts: Parts, label: str) -> Path:
    """Return the path of a part; raise DamagedValue if the manifest does not list it."""
    if label not in parts:
        raise DamagedValue(f"its manifest lists no {label}")
    return parts[label]


def _reason(kind: str, error: PmvgeError | OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"damaged {kind}: {Path(str(error.filename)).name} is missing"
    if isinstance(error, OSError):
        return f"cannot read the {kind}: {one_line(error)}"
    return f"damaged {kind}: {error}"


def _manifest_bytes(folder: Path, kind: str) -> bytes | None:
    """Return the bytes of the manifest; None if there is none. Raise StorageError otherwise."""
    path = folder / f"{kind}.json"
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise StorageError(f"{folder}: cannot read {kind}.json: it is not a file")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"{folder}: cannot read {kind}.json: {one_line(error)}") from error


def _read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    return _parse_manifest(folder, kind, _manifest_bytes(folder, kind))


def _parse_manifest(folder: Path, kind: str, raw: bytes | None) -> dict[str, Any]:
    path = folder / f"{kind}.json"
    if raw is None:
        raise StorageError(f"{folder}: not a pmvge {kind}: there is no {kind}.json")
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}: damaged: not valid JSON ({one_line(error)})") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind.removesuffix("-before"):
        got = short(manifest.get("kind")) if isinstance(manifest, dict) else short(manifest)
        raise StorageError(
            f"{folder}: not a pmvge {kind}: {kind}.json does not describe one: expected kind "
            f"{kind.removesuffix('-before')!r}, got {got}"
        )
    version = manifest.get("format")
    if not isinstance(version, int) or version < 1:
        raise StorageError(f"{path}: damaged: expected a format number, got {short(version)}")
    if version > FORMAT:
        raise StorageError(
            f"{path}: written by a newer pmvge: format {version}, this one reads up to {FORMAT}; "
            "update pmvge"
        )
    if manifest.get("checksum") != _checksum(manifest):
        raise StorageError(f"{path}: damaged: its content does not match its checksum")
    return manifest


def _listed_files(
    folder: Path, kind: str, manifest: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the manifest's list of files; raise StorageError if it is not valid."""
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(map(_is_entry, files.values())):
        raise StorageError(f"{folder}: damaged {kind}: its list of files: got {short(files)}")
    return files


def _is_entry(entry: Any) -> bool:
    """Return whether a manifest's entry has the name and checksum of a file, in ASCII."""
    texts = [entry.get(key) for key in ("name", "sha256")] if isinstance(entry, dict) else [None]
    return all(isinstance(text, str) and text.isascii() and text.isprintable() for text in texts)


def _verified(folder: Path, kind: str, entry: Mapping[str, Any]) -> Path:
    path = folder / Path(entry["name"]).name
    if path.exists() and not path.is_file():
        raise StorageError(f"{folder}: cannot read the {kind}: {path.name} is not a file")
    if _sha256(path) != entry["sha256"]:
        raise StorageError(
            f"{folder}: damaged {kind}: {path.name} has {path.stat().st_size} bytes that do not "
            f"match its checksum ({short(entry.get('bytes'))} bytes were written)"
        )
    return path


def tensors_writer(tensors: Mapping[str, torch.Tensor]) -> Write:
    """Return a function that writes the tensors to a path, as safetensors."""
    ready: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        if (pointer := plain.untyped_storage().data_ptr()) in seen:
            plain = plain.clone()  # tied weights: safetensors refuses shared memory
        seen.add(pointer)
        ready[name] = plain
    return lambda path: _save_tensors(ready, path)


def _save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    path.touch()
    mode = path.stat().st_mode
    save_file(tensors, path)
    path.chmod(mode)  # safetensors makes files that only their owner can read


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file; raise StorageError if it is damaged."""
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise StorageError(f"{path}: damaged: {one_line(error)}") from error
