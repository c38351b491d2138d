"""Dense features of views that are too many for memory: files of a folder, made once, mapped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import StorageError
from pmvge.storage import make_folder
from pmvge.tables.columns.blocks import Notes
from pmvge.tables.columns.learned import read_recipe
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.on_disk.mapped import made_from, open_features, states, write_features
from pmvge.tables.project import Feature, ViewTable
from pmvge.tables.sources.files import find
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.workbench import readable
from pmvge.version import __version__


class Kept(NamedTuple):
    """What an earlier run left: the features, how they were made, and what was missing."""

    recipe: Recipe
    X: NDArray[np.float32]
    missing: dict[str, int]


@dataclass(frozen=True, eq=False)
class Place:
    """The file for the features of one view, and what they are made from (None: who knows)."""

    path: Path
    origin: Mapping[str, Any] | None

    @classmethod
    def of(
        cls,
        folder: Path,
        view: str,
        table: ViewTable,
        features: Mapping[str, Feature],
        base: Path,
    ) -> Place:
        """The place of a view in a folder; ``base`` is what names of files are relative to."""
        name = quote(view, safe="")
        if len(name) > 80:  # file systems have limits, and names must stay distinct
            name = f"{name[:60]}-{hashlib.sha256(view.encode()).hexdigest()[:16]}"
        path = folder / f"{name}.npy"
        files = _files(table.source, base)
        if files is None:
            return cls(path, None)
        with readable(str(table.source)):
            origin = {
                "pmvge": __version__,
                "files": states(files),
                "table": table.source.table,
                "id": table.id,
                "features": {column: asdict(feature) for column, feature in features.items()},
                "standardize": table.standardize,
                "sparse": table.sparse,
            }
        return cls(path, origin)

    @cached_property
    def kept(self) -> Kept | None:
        """The features, if they were made before and nothing has changed."""
        note = None if self.origin is None else made_from(self.path, self.origin)
        if note is None:
            return None
        try:
            recipe = read_recipe(self.path.stem, note["recipe"])
            missing = {str(column): int(n) for column, n in note["missing"].items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # not what was written: to be made again
        X = open_features(self.path, shape=(None, recipe.width), dtype=np.float32)
        return Kept(recipe, X, missing)

    def write(
        self, recipe: Recipe, n: int, parts: Iterable[NDArray[np.float32]], notes: Notes
    ) -> NDArray[np.float32]:
        """Write the features of n rows; ``notes`` are full when the parts have come."""
        return write_features(
            self.path,
            (n, recipe.width),
            np.float32,
            parts,
            self.origin,
            learned=lambda: {"recipe": recipe.to_plain(), "missing": missing_values(notes)},
        )


def spill_folder(path: str | Path) -> Path:
    """The folder, made if it is not there; better to know before the work if it cannot be."""
    folder = make_folder(Path(path), "features")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"{folder}: cannot write the features: no permission")
    return folder


def missing_values(notes: Notes) -> dict[str, int]:
    """Columns with values that were missing, and how many."""
    return {column: n for (column, _), n in notes.items() if n}


def _files(source: Source, base: Path) -> list[Path] | None:
    """The files that a source reads; None for a frame, and for a query, which may read any."""
    if source.frame is not None or source.query is not None:
        return None
    if source.database is None:
        return find(base, str(source.path))
    path = base / source.database
    logs = (path.with_name(f"{path.name}{end}") for end in (".wal", "-wal"))  # what is written last
    return [path, *(log for log in logs if log.is_file())]
