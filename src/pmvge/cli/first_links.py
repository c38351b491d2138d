"""First links of the rows of a table, from ``--links``."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from pmvge.cli.view_pairs import view_pair
from pmvge.errors import InputError, ParameterError
from pmvge.graph import Ids
from pmvge.model import PMvGE
from pmvge.tables import JoinSummary, Notes, read_first_links, read_rows

INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)  # fits into 64 bits
Entries = tuple[NDArray[np.int64], Ids, NDArray[np.float64]]  # rows, ids, weights


def ids_as_trained(model: PMvGE, view: str, ids: Ids) -> Ids:
    """Return the ids of a table with the type of the training ids, to find known entities.

    A table with one id that is no number has texts as ids. If those of the training are integers,
    texts of integers become integers, and each other text a number below all ids of the training.
    """
    trained = model.ids_[view]
    if trained.dtype.kind not in "iu" or ids.dtype.kind != "U":
        return ids
    unknown = count(int(trained.min()) - 1, -1)
    numbers = [int(text) if INTEGER.fullmatch(text) else next(unknown) for text in ids.tolist()]
    return np.array(numbers, dtype=np.int64)


class FirstLinks:
    """Links of new entities with known ones, by row of a table; ``notes`` says what was left out.

    The row table is read once for its ids, and the link tables once. Raise InputError if the row
    table has no id column, and TableError if a table cannot be read.
    """

    def __init__(
        self, model: PMvGE, view: str, rows: str, tables: list[str], pairs: list[str]
    ) -> None:
        if len(pairs) > len(tables):
            raise ParameterError(
                f"--pair: expected at most one for each --links, got {len(pairs)} for {len(tables)}"
            )
        counted: Notes = Notes()
        ids = np.concatenate(
            [part for part, _ in read_rows(model.tables_, view, rows, notes=counted)]
        )
        for column, kind in counted:
            if kind == "numbered":
                raise InputError(f"{rows}: --links needs ids: expected a column {column!r}")
        known = model.is_known(view, ids_as_trained(model, view, ids))
        self.notes: list[str] = []
        self.linked = np.zeros(len(ids), bool)  # rows with first links
        self._entries: dict[str, list[Entries]] = {}
        for number, table in enumerate(tables):
            text = pairs[number] if number < len(pairs) else None
            pair = view_pair(model, text, table, view)
            (at, partners, weights), joined = read_first_links(
                model.tables_, model.ids_, view, ids, pair, table
            )
            self.notes += _describe_dropped(model, view, joined)
            if (old := known[at]).any():
                self.notes.append(
                    f"links {','.join(pair)}: {int(old.sum()):,} links of known {view} are not "
                    "used: their effects are those of the training"
                )
            other = pair[1] if pair[0] == view else pair[0]
            at, partners, weights = at[~old], partners[~old], weights[~old]
            self.linked[at] = True
            self._entries.setdefault(other, []).append((at, partners, weights))

    def of_rows(self, start: int, stop: int) -> dict[str, Entries]:
        """Return the links of rows ``start`` to ``stop``, as ``PMvGE.fold_in`` takes them."""
        found = {}
        for other, tables in self._entries.items():
            at, partners, weights = (np.concatenate(parts) for parts in zip(*tables, strict=True))
            inside = (at >= start) & (at < stop)
            found[other] = (at[inside] - start, partners[inside], weights[inside])
        return found


def _describe_dropped(model: PMvGE, view: str, joined: JoinSummary) -> list[str]:
    """Return notes on the rows of a link table that were dropped."""
    if not joined.dropped:
        return []
    a, b = joined.pair
    unknown = dict(joined.unknown_ids)
    if a == b or not unknown.get(view):  # within a view, links name known entities, too
        return [str(joined)]
    examples = np.array(unknown[view])
    known = examples[model.is_known(view, ids_as_trained(model, view, examples))].tolist()
    named = {"--rows" if name == view else name: ids for name, ids in unknown.items()}
    notes = [str(replace(joined, unknown_ids=named))]
    if known:
        verb = "are" if len(known) > 1 else "is"
        notes.append(
            f"links {a},{b}: {', '.join(known)} {verb} known from training and not in --rows: "
            f"links of known {view} are not used here; pmvge update takes them"
        )
    return notes
