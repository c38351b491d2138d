"""The best partners of the entities that ``pmvge search`` is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pmvge.errors import InputError
from pmvge.graph import Ids, find_ids
from pmvge.model import PMvGE
from pmvge.tables import Notes, read_rows


def queries(
    model: PMvGE, view: str, ids: list[str], table: str | None, notes: Notes
) -> Iterator[tuple[Ids, Any, bool]]:
    """Yield ids and features of the entities to search for, and whether the ids identify them.

    Known entities have None for features. Rows of a table without ids are numbered: they are new
    entities. Count unusual values of a table in ``notes``. Raise InputError for ids that are not
    known.
    """
    if table is None:
        yield _known_ids(model.ids_[view], view, ids), None, True
        return
    for numbers_or_ids, X in read_rows(model.tables_, view, table, notes=notes):
        yield numbers_or_ids, X, not any(kind == "numbered" for _, kind in notes)


def _known_ids(known: Ids, view: str, texts: list[str]) -> Ids:
    """Return ids of the type of ``known`` from texts; raise InputError if one is unknown."""
    ids: Ids = np.array(texts)
    if known.dtype.kind in "iu":
        try:
            ids = np.array([int(text) for text in texts], dtype=np.int64)
        except (ValueError, OverflowError):
            raise InputError(f"--id: the ids of {view!r} are integers, got {texts!r}") from None
    absent = ids[find_ids(known, ids) < 0]
    if len(absent):
        examples = ", ".join(repr(value.item()) for value in known[:3])
        raise InputError(
            f"--id: {absent[0].item()!r} is not among the {len(known):,} ids of {view!r}, such as "
            f"{examples}; pass new entities by --rows"
        )
    return ids


def best_partners(
    model: PMvGE,
    ids: Ids,
    X: Any,
    *,
    identified: bool,
    view: str,
    among: str,
    k: int,
    by: str,
    exclude_known: bool,
) -> list[dict[str, Any]]:
    """Return for each entity its id and its best ``k`` partners, with scores, best first.

    An entity is not a partner of itself. With ``exclude_known``, partners that are linked to it in
    training are left out. "known" says whether a partner is; None if the model has no links. Unless
    the entities are ``identified`` by their ids, all of them are new.
    """
    partners, scores = model.search(
        view,
        X,
        ids=ids if identified else None,
        among=among,
        k=k,
        by="similarity" if by == "similarity" else "intensity",
        exclude="known" if exclude_known else "self",
    )
    key = "similarity" if by == "similarity" else "expected_weight"
    has_links = model.links_ is not None
    linked = model.known_links(view, ids, among=among) if has_links and identified else None
    at = find_ids(model.ids_[among], partners.ravel()).reshape(partners.shape)
    return [
        {
            "id": ids[row].item(),
            "partners": [
                {
                    "id": partner.item(),
                    key: float(score),
                    "known": linked is not None and bool(linked[row, position])
                    if has_links
                    else None,
                }
                for partner, score, position in zip(
                    partners[row], scores[row], at[row], strict=True
                )
                if position >= 0
            ],
        }
        for row in range(len(ids))
    ]
