"""Entities of a request: known ones, raw rows or features, with first links."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import InputError, choose, short
from pmvge.graph import Ids
from pmvge.model import Chunk, PMvGE, entity_texts, training_positions
from pmvge.serving.errors import Refused
from pmvge.serving.schemas import Entities, FirstLink, LinkedEntities
from pmvge.serving.settings import Limits
from pmvge.tables import Notes, describe_values, links_of_records, rows_of_records, saved_id


def find_entities(
    model: PMvGE, request: Entities, limits: Limits, where: str = ""
) -> tuple[Chunk, list[str]]:
    """Return the entities of a request, and notes on their values.

    ``where`` starts error messages. Raise InputError or TableError if they are not valid, and
    Refused with status 422 if they are too many.
    """
    view, links = request.view, getattr(request, "links", None)
    choose("view", view, model.view_names_, error=InputError)
    given = {"rows": request.rows, "features": request.features, "ids": request.ids}
    named = [name for name, value in given.items() if value is not None]
    for name in named:
        check_size(f"{where}{name}", len(given[name] or []), limits)
    one = named in (["rows"], ["features"], ["ids"], ["features", "ids"])
    if not one and (named or not links):
        got = " and ".join(named) or "none"
        raise InputError(f"{where}expected one of ids, rows and features, got {got}")
    notes: Notes = Notes()
    ids, X = None, None
    if request.rows is not None:
        others = entity_texts(model, view)
        ids, X = rows_of_records(model.tables_, view, request.rows, notes=notes, others=others)
        for column, kind in [*notes]:
            if kind == "numbered":  # rows without ids are usual in a request
                del notes[column, kind]
        _count_known(model, view, ids, len(request.rows), notes)
    elif request.features is not None:
        X = _numbers(f"{where}features", request.features)
        ids = None if request.ids is None else as_ids(request.ids)
    elif request.ids is not None:
        ids = as_ids(request.ids) if links else model.find(view, request.ids, suggest=False)
    first = None
    if isinstance(request, LinkedEntities) and links is not None:
        check_size("links", sum(map(len, links.values())), limits)
        first = {other: _entries(model, view, other, part) for other, part in links.items()}
    n = _count(ids, X, first)
    check_size(f"{where}links: rows", n, limits)
    numbered = np.arange(n) if ids is None else ids
    return Chunk(numbered, X, ids, first), describe_values(view, notes) if notes else []


def check_size(where: str, size: int, limits: Limits) -> None:
    """Raise Refused unless a batch has at least one and at most the allowed number of entities."""
    if not 1 <= size <= limits.batch:
        raise Refused(422, f"{where}: expected 1 to {limits.batch} entries, got {size:,}")


def check_results(entities: int, others: int, limits: Limits) -> None:
    """Raise Refused if an answer would be too large."""
    if entities * others > limits.results:
        raise Refused(
            422,
            f"expected at most {limits.results:,} results, got {entities:,} entities with "
            f"{others:,} each",
        )


def known_rows(model: PMvGE, view: str, chunk: Chunk) -> NDArray[np.bool_]:
    """Return which entities were in training."""
    return training_positions(model, view, chunk) >= 0


def _count_known(model: PMvGE, view: str, ids: Ids | None, n: int, notes: Notes) -> None:
    known = 0 if ids is None else int(np.count_nonzero(model.is_known(view, ids)))
    notes["rows", "known"] += known
    notes["rows", "new"] += n - known


def as_ids(given: list[int | str]) -> Ids:
    """Return ids of one kind: integers, or texts."""
    if all(isinstance(value, int) for value in given):
        return np.array(given, np.int64)
    return np.array([str(value) for value in given])


def listed_ids(model: PMvGE, view: str, name: str, given: list[int | str] | None) -> Ids | None:
    """Return the ids of a filter with the type of the training ids; None without the filter.

    Texts of integers are integers where ids are. Raise InputError, which starts with the name of
    the filter, if a text is none.
    """
    if given is None:
        return None
    texts = [saved_id(model.tables_, view, str(value)) for value in given]
    if model.ids_[view].dtype.kind not in "iu":
        return np.array(texts, str)
    try:
        return np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        raise InputError(
            f"{name}: expected integers, as the ids of {view!r}, got {short(given)}"
        ) from None


def _numbers(where: str, given: list[Any]) -> NDArray[Any]:
    try:
        X = np.asarray(given)
    except ValueError:
        raise InputError(f"{where}: expected rows of one length") from None
    if X.dtype.kind not in "iuf" or X.ndim < 2:
        raise InputError(f"{where}: expected rows of numbers, got {short(given[0])}")
    return X.astype(np.float64)


def _entries(
    model: PMvGE, view: str, other: str, links: list[FirstLink]
) -> tuple[NDArray[np.int64], Ids, NDArray[np.float64]]:
    """Return first links with one other view, as ``PMvGE.fold_in`` takes them."""
    model.log_alpha_of(view, other)  # raises InputError for an unknown view or pair
    ids = model.find(other, [link.id for link in links], suggest=False)
    weights = np.array([link.weight for link in links], np.float64)
    rows = np.array([link.row for link in links], np.int64)
    return links_of_records(model.tables_, (view, other), rows, ids, weights)


def _count(ids: Ids | None, X: Any, links: dict[str, Any] | None) -> int:
    if ids is not None:
        return len(ids)
    if X is not None:
        return int(X.shape[0])
    return max(
        (int(rows.max()) + 1 for rows, _, _ in (links or {}).values() if len(rows)), default=0
    )
