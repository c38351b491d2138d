"""Folders on disk that are always whole: the old one or the new one, never half.

A folder holds a manifest (JSON) and data files named after their content. Data files are written
and synced first; then the manifest is replaced in one step, which is the commit; then files that it
no longer names are removed. Everything is checked against SHA-256 sums when it is read. No pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pmvge.errors import StorageError, one_line, short

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
FORMAT = 1
Write = Callable[[Path], object]


def commit(
    folder: Path,
    kind: str,
    content: Mapping[str, Any],
    parts: Mapping[str, Write],
    *,
    keep: bool = False,
) -> None:
    """Write ``parts`` (file name to writer) and a manifest with ``content``, atomically.

    ``kind`` names the manifest, such as "model" for model.json. With ``keep``, what was there
    before stays, as the kind "model-before", until the next commit.
    """
    make_folder(folder, kind)
    files: dict[str, dict[str, Any]] = {}
    try:
        with _one_writer(folder):
            before = _files_before(folder, kind)
            try:
                for label, write in parts.items():
                    files[label] = _write_part(folder, label, write)
                _write_manifest(
                    folder, kind, {**content, "files": files}, keep=keep and bool(before)
                )
            except (Exception, KeyboardInterrupt):
                _discard(folder, kind, parts, files)  # a full disk has no room for halves
                raise
            _remove_others(folder, kind, files, before, keep=keep)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise StorageError(f"{folder}: cannot write the {kind}: {error}") from error


def _write_manifest(folder: Path, kind: str, content: Mapping[str, Any], *, keep: bool) -> None:
    manifest = {"format": FORMAT, "kind": kind, **content}
    manifest["checksum"] = _checksum(manifest)
    partial = folder / f".{kind}.json.partial"
    text = json.dumps(manifest, indent=1, allow_nan=False, default=_plain)
    with partial.open("wb") as stream:
        stream.write(text.encode())
        stream.flush()
        _sync(stream.fileno())
    if keep:
        _copy_manifest(folder, kind, f"{kind}-before")
    partial.replace(folder / f"{kind}.json")
    _sync_folder(folder)


def _discard(
    folder: Path, kind: str, parts: Iterable[str], files: Mapping[str, Mapping[str, Any]]
) -> None:
    """Remove what a commit has written that came to nothing."""
    halves = {f".{name}.partial" for name in (*parts, f"{kind}.json")}
    for name in halves | ({entry["name"] for entry in files.values()} - _named(folder, kind)):
        with suppress(OSError):
            (folder / name).unlink()


def remove(folder: Path, kind: str) -> None:
    """Remove what was committed, and the folder if nothing else is in it.

    First the manifests: a removal that is cut short leaves files behind, but none that is named.
    """
    with suppress(OSError), _one_writer(folder):
        named = sorted(_named(folder, kind))
        for name in (f"{kind}.json", f"{kind}-before.json", *named):
            (folder / Path(name).name).unlink(missing_ok=True)
        folder.rmdir()


@contextmanager
def _one_writer(folder: Path) -> Iterator[None]:
    """Wait for other writers of the folder; where there are no such locks, hope for the best."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have none
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, write: Write) -> None:
    """Write a single file, atomically: if that fails, what was there before is still there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb+") as stream:
            _sync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def make_folder(folder: Path, kind: str) -> Path:
    """Make the folder if it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot write the {kind}: {error}") from error
    return folder


def _write_part(folder: Path, label: str, write: Write) -> dict[str, Any]:
    partial = folder / f".{label}.partial"
    write(partial)
    with partial.open("rb+") as stream:
        digest = hashlib.file_digest(stream, hashlib.sha256).hexdigest()
        _sync(stream.fileno())
    name = Path(label)
    final = partial.replace(folder / f"{name.stem}-{digest[:16]}{name.suffix}")
    return {"name": final.name, "sha256": digest, "bytes": final.stat().st_size}


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _files_before(folder: Path, kind: str) -> dict[str, dict[str, Any]]:
    """The files that the manifest names which is about to be replaced."""
    try:
        return dict(_read_manifest(folder, kind)["files"])
    except (StorageError, KeyError, TypeError, ValueError):
        return {}


def _named(folder: Path, kind: str) -> set[str]:
    """The files that there is a manifest for, the current one or the one before it."""
    kinds = (kind, f"{kind}-before")
    try:
        return {str(e["name"]) for k in kinds for e in _files_before(folder, k).values()}
    except (KeyError, TypeError):  # forged
        return set()


def put_back(folder: Path, kind: str) -> None:
    """Make what the last commit kept the current one again, if the folder can be written."""
    with suppress(OSError), _one_writer(folder):
        _copy_manifest(folder, f"{kind}-before", kind)


def _copy_manifest(folder: Path, kind: str, other: str) -> None:
    partial = folder / f".{other}.json.{os.getpid()}.partial"
    partial.write_bytes((folder / f"{kind}.json").read_bytes())
    with partial.open("rb+") as stream:
        _sync(stream.fileno())
    partial.replace(folder / f"{other}.json")


def _remove_others(
    folder: Path,
    kind: str,
    files: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, Mapping[str, Any]],
    *,
    keep: bool,
) -> None:
    """Remove what earlier commits of this kind left behind, and nothing of anybody else's.

    Files are known by the first word of their labels, such as "weights" and "embeddings".
    """
    named = [*files.values(), *(before.values() if keep else ())]
    kept = {entry["name"] for entry in named}
    first = {re.split(r"[-.]", label)[0] for label in [*files, *before]}
    words = "|".join(map(re.escape, sorted(first)))
    ours = re.compile(
        rf"({words})(-.+)?-[0-9a-f]{{16}}\.(safetensors|parquet)|\.({words}|{kind})[-.].*partial"
    )
    for path in folder.iterdir():
        if path.name not in kept and ours.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _checksum(manifest: Mapping[str, Any]) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    text = json.dumps(rest, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """numpy's scalars as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} values cannot be stored")


def exists(folder: Path, kind: str) -> bool:
    """Whether the folder has a manifest of that kind."""
    return (folder / f"{kind}.json").is_file()


def read(folder: Path, kind: str) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the manifest and the path of every part, all of them verified.

    The kind "model-before" is what the last commit kept of the one before it.
    """
    manifest = _read_manifest(folder, kind)
    while True:
        try:
            return manifest, {
                label: _verified(folder, kind, entry) for label, entry in manifest["files"].items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:  # names, too
            raise StorageError(
                f"{folder}: damaged {kind}: its list of files: {one_line(error)}"
            ) from error
        except FileNotFoundError as error:
            # A writer may have committed in between: then the manifest is another one now.
            before, manifest = manifest, _read_manifest(folder, kind)
            if manifest == before:
                raise StorageError(
                    f"{folder}: damaged {kind}: {Path(str(error.filename)).name} is missing"
                ) from error
        except OSError as error:
            raise StorageError(f"{folder}: cannot read the {kind}: {one_line(error)}") from error


def _read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    path = folder / f"{kind}.json"
    if path.exists() and not path.is_file():  # a pipe would never end
        raise StorageError(f"{folder}: cannot read {kind}.json: it is not a file")
    try:
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(f"{folder}: not a pmvge {kind}: there is no {kind}.json") from None
    except OSError as error:
        raise StorageError(f"{folder}: cannot read {kind}.json: {one_line(error)}") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}: damaged: not valid JSON ({one_line(error)})") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind.removesuffix("-before"):
        raise StorageError(f"{folder}: not a pmvge {kind}: {kind}.json is something else")
    version = manifest.get("format")
    if not isinstance(version, int) or version < 1:
        raise StorageError(f"{path}: damaged: expected a format number, got {short(version)}")
    if version > FORMAT:
        raise StorageError(
            f"{path}: written by a newer pmvge: format {version}, this one reads up to {FORMAT}"
        )
    if manifest.get("checksum") != _checksum(manifest):
        raise StorageError(f"{path}: damaged: its content does not match its checksum")
    return manifest


def _verified(folder: Path, kind: str, entry: Mapping[str, Any]) -> Path:
    path = folder / Path(entry["name"]).name
    if path.exists() and not path.is_file():
        raise StorageError(f"{folder}: cannot read the {kind}: {path.name} is not a file")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, hashlib.sha256).hexdigest()
    if digest != entry["sha256"]:
        raise StorageError(
            f"{folder}: damaged {kind}: {path.name} has {path.stat().st_size} bytes that do not "
            f"match its checksum ({entry['bytes']} bytes were written)"
        )
    return path


def tensors_writer(tensors: Mapping[str, torch.Tensor]) -> Write:
    """A writer of tensors as safetensors."""
    ready: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        if (place := plain.untyped_storage().data_ptr()) in seen:
            plain = plain.clone()  # tied weights: a file has no two names for one tensor
        seen.add(place)
        ready[name] = plain
    return lambda path: _save_tensors(ready, path)


def _save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    path.touch()
    mode = path.stat().st_mode
    save_file(tensors, path)
    path.chmod(mode)  # safetensors makes files that nobody else may read


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise StorageError(f"{path}: damaged: {one_line(error)}") from error
