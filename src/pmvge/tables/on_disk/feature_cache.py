"""A folder of memory-mapped features, one file per view, reused while the tables are unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import StorageError
from pmvge.storage import file_name, make_folder
from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.columns.saved import read_recipe
from pmvge.tables.on_disk.mapped import (
    current_metadata,
    fingerprint_files,
    open_features,
    write_features,
)
from pmvge.tables.project import Feature, ViewTable
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.files import find_files
from pmvge.tables.sources.source import ADDRESSES, Source
from pmvge.version import __version__


class CachedFeatures(NamedTuple):
    """Features that an earlier run wrote, their recipe, and the missing values per column."""

    recipe: Recipe
    X: NDArray[np.float32]
    missing: dict[str, int]


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """The file for the features of one view.

    ``origin`` identifies the files and options that the features are made from. None: the source
    cannot be fingerprinted, so the features are computed in every run.
    """

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
    ) -> FeatureCache:
        """Return the cache of a view in a folder; sources are relative to ``base``."""
        path = folder / f"{file_name(view)}.npy"
        files = _files(table.source, base)
        if files is None:
            return cls(path, None)
        with table_errors(str(table.source)):
            origin = {
                "pmvge": __version__,
                "files": fingerprint_files(files),
                "table": table.source.table,
                "id": table.id,
                "features": {column: asdict(feature) for column, feature in features.items()},
                "standardize": table.standardize,
                "sparse": table.sparse,
                "dialect": table.source.dialect.to_dict(),
                "on_error": table.on_error,
                "normalize_ids": table.normalize_ids,
            }
        return cls(path, origin)

    @cached_property
    def cached(self) -> CachedFeatures | None:
        """The features of an earlier run; None if there are none, or their origin has changed."""
        metadata = None if self.origin is None else current_metadata(self.path, self.origin)
        if metadata is None:
            return None
        try:
            recipe = read_recipe(self.path.stem, metadata["recipe"])
            missing = {str(column): int(n) for column, n in metadata["missing"].items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # damaged metadata: compute the features again
        X = open_features(self.path, shape=(None, recipe.width), dtype=np.float32)
        return CachedFeatures(recipe, X, missing)

    def write(
        self, recipe: Recipe, n: int, parts: Iterable[NDArray[np.float32]], notes: Notes
    ) -> NDArray[np.float32]:
        """Write the features of n rows and return them as a memory map.

        ``notes`` is read after the last part, when it is complete.
        """
        return write_features(
            self.path,
            (n, recipe.width),
            np.float32,
            parts,
            self.origin,
            metadata=lambda: {"recipe": recipe.to_dict(), "missing": missing_values(notes)},
        )


def make_spill_folder(path: str | Path) -> Path:
    """Create the folder for features, if needed; raise StorageError if it cannot be written.

    This runs before the tables are read, so that an unusable folder is reported at once.
    """
    folder = make_folder(Path(path), "features")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"{folder}: cannot write the features: no permission")
    return folder


def missing_values(notes: Notes) -> dict[str, int]:
    """Return the number of missing values of each column that has some."""
    return {column: n for (column, kind), n in notes.items() if n and kind == "missing"}


def _files(source: Source, base: Path) -> list[Path] | None:
    """Return the files that a source reads; None for data frames, queries and servers."""
    if source.frame is not None or source.query is not None:
        return None
    arrays = [path for array in source.arrays for path in find_files(base, array)]
    if source.database is None:
        return find_files(base, str(source.path)) + arrays
    if source.database.startswith(ADDRESSES):
        return None
    path = base / source.database
    logs = (path.with_name(f"{path.name}{end}") for end in (".wal", "-wal"))  # write-ahead logs
    return [path, *(log for log in logs if log.is_file()), *arrays]
