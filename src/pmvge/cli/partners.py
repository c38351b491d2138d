"""The best partners of the entities that ``pmvge search`` is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scipy import sparse

from pmvge.cli.first_links import FirstLinks
from pmvge.cli.new_rows import Chunk, read_chunks
from pmvge.errors import InputError
from pmvge.graph import find_ids
from pmvge.model import PMvGE
from pmvge.tables import Notes


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


def best_partners(
    model: PMvGE,
    chunk: Chunk,
    *,
    view: str,
    among: str,
    k: int,
    by: str,
    exclude_known: bool,
    show: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return for each entity its id and its best ``k`` partners, with scores, best first.

    Entities of views with names have their name, and partners the columns in ``show``.

    An entity is not a partner of itself. With ``exclude_known``, partners that are linked to it in
    training, or by its first links, are left out. "known" says whether a partner is; None if the
    model has no links.
    """
    ids = chunk.ids
    partners, scores = model.search(
        view,
        chunk.X,
        ids=chunk.given_ids,
        links=chunk.links,
        among=among,
        k=k,
        by="similarity" if by == "similarity" else "intensity",
        exclude="known" if exclude_known else "self",
    )
    key = "similarity" if by == "similarity" else "expected_weight"
    linked = None if model.links_ is None else _linked(model, view, chunk, among)
    at = find_ids(model.ids_[among], partners.ravel()).reshape(partners.shape)
    own = find_ids(model.ids_[view], ids) if chunk.given_ids is not None else [-1] * len(ids)
    texts = {**model.columns_.get(among, {}), **model.labels_.get(among, {})}
    return [
        {
            "id": ids[row].item(),
            **_name(model, view, own[row]),
            "partners": [
                {
                    "id": partner.item(),
                    **_name(model, among, position),
                    **({"columns": {c: str(texts[c][position]) for c in show}} if show else {}),
                    key: float(score),
                    "known": None if linked is None else bool(linked[row, position]),
                }
                for partner, score, position in zip(
                    partners[row], scores[row], at[row], strict=True
                )
                if position >= 0
            ],
        }
        for row in range(len(ids))
    ]


def _name(model: PMvGE, view: str, position: int) -> dict[str, str]:
    """Return the name of a training entity; nothing for new entities and views without names."""
    names = model.names_.get(view)
    return {} if names is None or position < 0 else {"name": str(names[position])}


def _linked(model: PMvGE, view: str, chunk: Chunk, among: str) -> sparse.csr_array:
    """Return the weights of known links and of first links, (entities, entities of ``among``)."""
    shape = (len(chunk.ids), len(model.ids_[among]))
    linked = sparse.csr_array(shape)
    if chunk.given_ids is not None:
        linked = model.known_links(view, chunk.given_ids, among=among)
    if chunk.links and among in chunk.links:
        rows, partners, weights = chunk.links[among]
        columns = find_ids(model.ids_[among], partners)
        linked = sparse.csr_array(linked + sparse.csr_array((weights, (rows, columns)), shape))
    return linked
