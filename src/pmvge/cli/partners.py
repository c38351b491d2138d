"""The entities that ``pmvge search`` is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pmvge.cli.first_links import FirstLinks
from pmvge.cli.new_rows import read_chunks
from pmvge.errors import InputError, one_line
from pmvge.graph import Ids
from pmvge.model import Chunk, PMvGE
from pmvge.tables import Notes, saved_id


def queries(
    model: PMvGE,
    view: str,
    ids: list[str],
    table: str | None,
    notes: Notes,
    first: FirstLinks | None,
) -> Iterator[Chunk]:
    """Yield the entities to search for: known ones by ids or names, or the rows of a table.

    Count rows and unusual values of a table in ``notes``. Raise InputError for ids and names that
    are not known.
    """
    if table is None:
        try:
            known = model.find(view, ids)
        except InputError as error:
            raise InputError(f"--id: {error}; pass new entities by --rows") from None
        yield Chunk(known, None, known, None)
    else:
        yield from read_chunks(model, view, table, notes, first)


def read_ids(model: PMvGE, view: str, flag: str, path: Path) -> Ids:
    """Return the ids in a text file, one in each line, with the type of the view's ids.

    Raise InputError if the file cannot be read, or if a line is no integer where ids are integers.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{flag}: {path} cannot be read: {one_line(error)}") from error
    ids = [saved_id(model.tables_, view, line) for line in lines if line]
    texts = np.array(ids, dtype=str)
    if model.ids_[view].dtype.kind == "U":
        return texts
    try:
        return texts.astype(np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{flag}: {path}: expected integer ids: {one_line(error)}") from error
