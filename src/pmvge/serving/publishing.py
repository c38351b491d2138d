"""Copy a model to the folder that the workers of a server read.

The folder has, for each published model, a verified copy of its files and its memory-mapped arrays,
and ``current.json``, which names the model to serve. So workers never read the model's own folder,
which may be written or removed at any time, and a restarted worker finds what the others serve.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pmvge import storage
from pmvge.model import PMvGE
from pmvge.serving.published import FRESH, INDEXES, MAPS, Current

KEPT = 2  # published models: the current one, and one that workers may still be loading


def publish(folder: Path, cache: Path, reload: str = FRESH) -> None:
    """Copy the model in a folder, write its arrays, and make it the current one.

    Raise StorageError if the folder holds no model or a damaged one.
    """
    copies = storage.make_folder(cache / "models", "copy of the model")
    checksum = storage.read(folder, "model", lambda manifest, parts: _copy(copies, manifest, parts))
    extras = _copy_extras(folder, published_folder(cache, checksum))
    load_published(cache, checksum)
    Current(checksum, reload, extras).write(cache)
    _remove_old(copies, cache / "maps")


def published_folder(cache: Path, checksum: str) -> Path:
    """Return the folder of a published model."""
    return cache / "models" / checksum


def load_published(cache: Path, checksum: str) -> PMvGE:
    """Return a published model with its memory-mapped arrays."""
    model = PMvGE.load(published_folder(cache, checksum), memory_map=cache / "maps")
    model.progress = False
    return model


def _copy(copies: Path, manifest: dict[str, Any], parts: storage.Parts) -> str:
    """Copy the files of a model, and return its checksum."""
    checksum = str(manifest["checksum"])
    target, started = copies / checksum, copies / f".{checksum}.{os.getpid()}"
    if target.exists():
        os.utime(target)  # the newest one
        return checksum
    started.mkdir()
    try:
        for path in parts.values():
            shutil.copyfile(path, started / path.name)
        (started / "model.json").write_text(json.dumps(manifest))
        started.rename(target)
    finally:
        shutil.rmtree(started, ignore_errors=True)
    return checksum


def _copy_extras(folder: Path, target: Path) -> str:
    """Copy the saved indexes and the map of a model, manifests last; return a hash of these.

    They are checked when they are loaded.
    """
    files = sorted(_extras(folder), key=lambda path: (path.suffix == ".json", path.name))
    digest = hashlib.sha256()
    for path in files:
        with suppress(FileNotFoundError):  # replaced meanwhile: the next check sees it
            storage.replace_file(target / path.name, partial(shutil.copyfile, path))
            digest.update(path.read_bytes() if path.suffix == ".json" else b"")
    for name in {path.name for path in _extras(target)} - {path.name for path in files}:
        (target / name).unlink(missing_ok=True)
    return digest.hexdigest() if files else ""


def _extras(folder: Path) -> list[Path]:
    return [path for pattern in (INDEXES, *MAPS) for path in folder.glob(pattern)]


def _remove_old(copies: Path, maps: Path) -> None:
    """Remove all but the newest models, and copies that were not completed."""
    found = sorted(copies.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    whole = [path for path in found if not path.name.startswith(".")]
    for path in {*found} - {*whole[-KEPT:]}:
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(maps / path.name, ignore_errors=True)
