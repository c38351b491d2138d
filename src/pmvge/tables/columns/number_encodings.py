"""Encodings of columns of numbers, dates and vectors: scaled, with missing values filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute
from numpy.typing import NDArray

from pmvge.errors import TableError
from pmvge.graph import standard_scale
from pmvge.tables.columns.encoded import Matrix, Notes


@dataclass(frozen=True)
class Scaling:
    r"""Scaling of one column, :math:`(x - \text{shift}) \cdot \text{scale}`.

    Missing values are replaced by ``fill`` first. A column that is constant in float32 precision
    becomes 0.
    """

    fill: float
    shift: float
    scale: float
    missing: bool  # values were missing in training: add an indicator column

    @classmethod
    def of(
        cls, mean: float | None, deviation: float | None, missing: bool, standardize: bool
    ) -> Scaling:
        """Return the scaling for a column's mean and standard deviation; None: no values."""
        if mean is None or deviation is None:
            return cls(0.0, 0.0, 0.0, missing)
        if not standardize:
            return cls(mean, 0.0, 1.0, missing)
        return cls(mean, mean, float(standard_scale(mean, deviation)), missing)


@dataclass(frozen=True)
class Numbers:
    """Encoding of numbers and dates: standardised, missing values filled with the mean.

    Columns with missing values in training get an indicator column each.
    """

    columns: tuple[str, ...]
    kinds: tuple[str, ...]  # "numeric" or "date"
    scalings: tuple[Scaling, ...]
    sparse: ClassVar = False

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.columns) + sum(scaling.missing for scaling in self.scalings)

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        parts = zip(*((s.fill, s.shift, s.scale, s.missing) for s in self.scalings), strict=True)
        return tuple(np.array(part) for part in parts)

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width), the missing-value indicators last."""
        fill, shift, scale, indicated = self._arrays
        x = stack_numbers(batch[column] for column in self.columns)
        empty = np.isnan(x)
        for column, count in zip(self.columns, empty.sum(axis=0).tolist(), strict=True):
            notes[column, "missing"] += count
        x[empty] = np.broadcast_to(fill, x.shape)[empty]
        x -= shift
        x *= scale
        with np.errstate(over="ignore"):  # an infinite feature is an error where it is used
            numbers = x.astype(np.float32)
        return np.hstack([numbers, empty[:, indicated].astype(np.float32)])


@dataclass(frozen=True)
class Vector:
    """Encoding of a column of lists of one length: each element is scaled like a number."""

    kinds: ClassVar = ("vector",)
    columns: tuple[str, ...]
    scalings: tuple[Scaling, ...]  # one per element, all with the same "missing"
    sparse: ClassVar = False

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.scalings) + self.scalings[0].missing

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width), the missing-value indicator last."""
        (column,) = self.columns
        x = lists_to_rows(column, batch[column], len(self.scalings))
        empty = np.isnan(x[:, 0])
        notes[column, "missing"] += int(empty.sum())
        fill, shift, scale = (
            np.array([getattr(s, part) for s in self.scalings])
            for part in ("fill", "shift", "scale")
        )
        filled = (np.where(empty[:, None], fill, x) - shift) * scale
        indicator = [empty[:, None]] if self.scalings[0].missing else []
        return np.hstack([filled, *indicator]).astype(np.float32)


def lists_to_rows(column: str, values: pyarrow.Array, length: int) -> NDArray[np.float64]:
    """Return lists of ``length`` finite numbers as rows of a matrix; a missing one is a row of NaN.

    Raise TableError if a list has another length.
    """
    lengths = pyarrow.compute.list_value_length(values).to_numpy(zero_copy_only=False)
    given = ~np.isnan(lengths.astype(float))
    if (lengths[given] != length).any():
        other = int(lengths[given][lengths[given] != length][0])
        raise TableError(
            f"column {column!r}: expected vectors of length {length}, got one of {other}"
        )
    flat = values.drop_null().flatten()
    x = np.full((len(values), length), np.nan)
    x[given] = _doubles(flat).reshape(-1, length)
    return x


def stack_numbers(columns: Iterable[pyarrow.Array]) -> NDArray[np.float64]:
    """Return columns of numbers as a matrix, with NaN for missing values.

    Columns of one type are stacked before they are cast: small integers are faster to copy.
    """
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns]
    return np.column_stack(arrays).astype(np.float64, copy=False)


def _doubles(values: pyarrow.Array) -> NDArray[np.float64]:
    """Return numbers as float64, with NaN for missing values."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
