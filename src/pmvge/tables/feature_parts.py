"""The parts of an encoded row, named by the columns and values of the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.tables.columns.category_encodings import Categories, Category
from pmvge.tables.columns.encodings import ColumnEncoding
from pmvge.tables.columns.number_encodings import Numbers, Scaling
from pmvge.tables.columns.word_encodings import Words
from pmvge.tables.saved_tables import SavedTables, saved_recipe

EPOCH = datetime(1970, 1, 1)


class FeaturePart(NamedTuple):
    """Features that stand for one value of a table's column."""

    column: str
    value: str  # the number, date, category or word; "" if it cannot be shown
    at: NDArray[np.int64]  # positions in the row of features
    absent: bool = False  # whether these are the values of the column that the row does not have

    @property
    def name(self) -> str:
        """The column and its value, such as "genre = drama"."""
        if self.absent:
            return f"{self.column}: not the others"
        return f"{self.column} = {self.value}" if self.value else self.column


def row_parts(tables: SavedTables, view: str, row: NDArray[Any]) -> list[FeaturePart] | None:
    """Return the parts of a row of features (width,); None if the view has no column descriptions.

    A column of numbers, dates or categories is one part, with its indicator of missing values. A
    column with several categories in a cell, or with words, has a part for each of them that
    occurs, and one for all that do not. Every feature is in one part.
    """
    recipe = saved_recipe(tables, view)
    if recipe is None:
        return None
    parts: list[FeaturePart] = []
    start = 0
    for encoding in recipe.encodings:
        own = _parts(encoding, row[start : start + encoding.width])
        parts += [part._replace(at=part.at + start) for part in own]
        start += encoding.width
    return parts


def _parts(encoding: ColumnEncoding, x: NDArray[Any]) -> Iterator[FeaturePart]:
    if isinstance(encoding, Numbers):
        yield from _numbers(encoding, x)
        return
    (column,) = encoding.columns
    everything = np.arange(encoding.width)
    if isinstance(encoding, Category):
        found = np.flatnonzero(x)
        names = _category_names(encoding)
        yield FeaturePart(
            column, names[found[0]] if len(found) else "none of the known", everything
        )
    elif isinstance(encoding, Categories | Words):
        names = [*encoding.words] if isinstance(encoding, Words) else _category_names(encoding)
        for at in np.flatnonzero(x):
            yield FeaturePart(column, names[at], np.array([at]))
        yield FeaturePart(column, "", np.flatnonzero(x == 0), absent=True)
    else:
        yield FeaturePart(column, "", everything)


def _category_names(encoding: Category | Categories) -> list[str]:
    more = ["another"] * encoding.rest + ["missing"] * encoding.missing
    return [*encoding.values, *more] or ["none"]


def _numbers(encoding: Numbers, x: NDArray[Any]) -> Iterator[FeaturePart]:
    indicator = len(encoding.columns)
    for at, (column, kind, scaling) in enumerate(
        zip(encoding.columns, encoding.kinds, encoding.scalings, strict=True)
    ):
        positions, missing = [at], False
        if scaling.missing:
            positions.append(indicator)
            missing = bool(x[indicator])
            indicator += 1
        value = "missing" if missing else _decoded(float(x[at]), kind, scaling)
        yield FeaturePart(column, value, np.array(positions))


def _decoded(x: float, kind: str, scaling: Scaling) -> str:
    """Return the number or date that was encoded as x; "" if it cannot be recovered."""
    if scaling.scale == 0:
        return ""
    value = x / scaling.scale + scaling.shift
    if kind == "numeric":
        return f"{value:.6g}"
    try:  # days since 1970, in float32 precision: rounded to an hour
        return (EPOCH + timedelta(hours=round(24 * value))).date().isoformat()
    except (OverflowError, ValueError):
        return ""
