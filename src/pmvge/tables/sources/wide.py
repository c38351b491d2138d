"""Wide text files: one pass over the cells, and columns of integers as integers.

DuckDB's planning time grows with the number of columns, and a cast from text costs as much as
reading the text. A file with many columns is therefore read once, by Arrow, and columns in which
every cell is written as a plain integer get that type. No cell changes: 007 is not a plain integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.compute
from pyarrow import csv

from pmvge.tables.sources.dialect import Dialect
from pmvge.tables.sources.files import packing
from pmvge.tables.sources.header import Header

MIN_COLUMNS = 256  # of a file that is read at once
MAX_BYTES = 1 << 28  # larger files are read in batches, cell by cell


def is_wide(columns: int, files: Iterable[Path]) -> bool:
    """Return whether a file has many columns and fits into memory."""
    return columns >= MIN_COLUMNS and sum(path.stat().st_size for path in files) <= MAX_BYTES


def read_wide(
    files: Sequence[Path], header: Header, dialect: Dialect, nulls: Sequence[str]
) -> pyarrow.Table | None:
    """Return the cells of wide files as texts; None if Arrow cannot read them, or has other rules.

    DuckDB then reads them, or says what is wrong: Arrow accepts a quote that is never closed.
    """
    packed = any(map(packing, files))
    if packed or len(header.delimiter) > 1 or any(b'"' in path.read_bytes() for path in files):
        return None
    read = csv.ReadOptions(
        column_names=header.names,
        skip_rows_after_names=int(dialect.header is True),
        block_size=1 << 24,
        use_threads=False,
    )
    parse = csv.ParseOptions(delimiter=header.delimiter)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(header.names, pyarrow.string()),
        strings_can_be_null=True,
        null_values=list(nulls),
    )
    tables = []
    for path in files:
        try:
            with pyarrow.OSFile(str(path)) as file:  # Arrow would fetch a path that is a URL
                tables.append(csv.read_csv(file, read, parse, convert))
        except pyarrow.ArrowException:
            return None
    return pyarrow.concat_tables(tables)


def with_integers(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table of texts in which columns of plain integers are integers."""
    columns = [_as_integers(column.combine_chunks()) for column in table.columns]
    return pyarrow.table(columns, names=table.column_names)


def _as_integers(texts: pyarrow.Array) -> pyarrow.Array:
    if isinstance(texts, pyarrow.ChunkedArray):  # no rows
        return texts
    digits = _as_digits(texts)
    if digits is not None:
        return digits
    try:
        integers = pyarrow.compute.cast(texts, pyarrow.int64())
    except pyarrow.ArrowInvalid:
        return texts
    same = pyarrow.compute.equal(pyarrow.compute.cast(integers, texts.type), texts)
    return integers if pyarrow.compute.all(same).as_py() is True else texts


def _as_digits(texts: pyarrow.Array) -> pyarrow.Array | None:
    """Return cells of one digit each as integers, from their bytes; None if there are others."""
    if not pyarrow.types.is_string(texts.type) or texts.null_count or not len(texts):
        return None
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    if offsets[-1] - offsets[0] != len(texts) or (np.diff(offsets) != 1).any():
        return None
    digits = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]] - ord("0")
    return pyarrow.array(digits.astype(np.int8)) if digits.max() <= 9 else None
