"""CSV files of the examples."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_csv(path: Path, columns: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table with a header; folders that are missing are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
