"""The interface of a file format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import duckdb

from pmvge.tables.sources.dialect import Dialect
from pmvge.tables.sources.source import Source


class FileFormat(ABC):
    """A format of files: how to recognise one, and how DuckDB can select from such files.

    To add a format, write a subclass in a file of its own and list it in ``formats.py``.
    """

    name: ClassVar[str]  # in messages
    reads_na_values: ClassVar[bool] = False  # whether ``stage`` applies ``dialect.na_values``
    has_encoding: ClassVar[bool] = False  # whether files are texts, which ``encoding`` is for
    has_tables: ClassVar[bool] = False  # whether a file has several tables, such as sheets

    @abstractmethod
    def recognizes(self, path: Path, start: bytes) -> bool:
        """Return whether a file has this format, by its first bytes (decompressed)."""

    @abstractmethod
    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        """Create a view or table ``name`` of the rows of files that have this format.

        Raise TableError if they cannot be read as one table.
        """

    def table_names(self, path: Path) -> list[str]:
        """Return the names of the tables in a file; [] unless ``has_tables``."""
        return []

    def declared_types(self, path: Path, dialect: Dialect) -> dict[str, str]:
        """Return the types that a header declares, as in ``user_id:token``."""
        return {}
