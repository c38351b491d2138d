"""``pmvge search``: the best partners of known or new entities."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import sparse

from pmvge.cli.common import (
    AsJson,
    Model,
    background_of,
    cell,
    load,
    plain_id,
    print_json,
    tell,
    visible,
)
from pmvge.cli.embed import embedded, strange_values
from pmvge.errors import InputError, ParameterError, choose
from pmvge.graph import Ids, find
from pmvge.model import Background, PMvGE
from pmvge.search import Embeddings, top_k
from pmvge.tables import Notes


def search(
    model: Model,
    view: Annotated[str, typer.Option("--view", help="The view to search from.")],
    among: Annotated[str, typer.Option("--among", help="The view to search in.")],
    id_: Annotated[
        list[str] | None, typer.Option("--id", help="An entity of the training; may be repeated.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="FILE", help="A table of new entities.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many partners.")] = 10,
    by: Annotated[
        str, typer.Option(help="'intensity', expected weights, or 'similarity', for any pair.")
    ] = "intensity",
    exclude_known: Annotated[
        bool, typer.Option("--exclude-known", help="Leave out partners that are linked already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the best partners of entities in another view, or in the same.

    Example: pmvge search model/ --view users --id 42 --among movies -k 10 --exclude-known

    New entities: pmvge search model/ --view users --rows new_users.csv --among movies
    """
    choose("ranking", by, ("intensity", "similarity"), "--by")
    if bool(id_) == bool(rows):
        both = "--id or --rows, not both" if id_ else "--id, or --rows with a table of new entities"
        raise ParameterError(f"say whose partners: {both}")
    loaded, background = load(model)
    for name in (view, among):
        if name not in loaded.view_names_:
            known = ", ".join(map(repr, loaded.view_names_))
            raise InputError(f"{model}: no view {name!r}: expected one of {known}")
    if exclude_known:
        background_of(model, background)
    log_alpha = 0.0 if by == "similarity" else _log_alpha(loaded, view, among)
    notes: Notes = Counter()
    queries = _rows(loaded, view, rows, notes) if rows else _known(loaded, view, id_ or [])
    tell(strange_values(view, notes))
    positions = find(loaded.ids_[view], queries.ids)
    linked = _linked(loaded, background, view, among, positions)
    hidden = linked if exclude_known else sparse.csr_array(linked.shape)
    if view == among:  # nobody is a partner of oneself
        hidden = hidden + _selves(positions, len(loaded.ids_[among]))
    at, g = top_k(queries.vectors, loaded.embeddings_[among], k, exclude=hidden.tocsr())
    score = g.astype(np.float64) if by == "similarity" else _exp(g, log_alpha)
    key = "similarity" if by == "similarity" else "expected_weight"
    results = [
        {
            "id": plain_id(queries.ids[row]),
            "partners": [
                {
                    "id": plain_id(loaded.ids_[among][at[row, place]]),
                    key: float(score[row, place]),
                    "known": bool(linked[row, at[row, place]]),
                }
                for place in range(at.shape[1])
                if at[row, place] >= 0
            ],
        }
        for row in range(len(queries))
    ]
    if as_json:
        print_json({"view": view, "among": among, "by": by, "results": results})
        return
    for result in results:
        _show(result, view, among, key, background is not None)


def _log_alpha(model: PMvGE, view: str, among: str) -> float:
    if not {(view, among), (among, view)} & set(model.log_alpha_):
        linked = ", ".join(",".join(pair) for pair in model.log_alpha_)
        raise InputError(
            f"{view} and {among} were not linked in training (linked are {linked}), so no weight "
            "can be expected; --by similarity ranks any pair"
        )
    return model.log_alpha_of(view, among)


def _exp(g: NDArray[Any], log_alpha: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.exp(g.astype(np.float64) + log_alpha)


def _rows(model: PMvGE, view: str, table: str, notes: Notes) -> Embeddings:
    parts = list(embedded(model, view, table, notes))
    ids = np.concatenate([part.ids for part in parts])
    return Embeddings(ids, np.concatenate([part.vectors for part in parts]))


def _known(model: PMvGE, view: str, ids: list[str]) -> Embeddings:
    """Entities of the training by the ids that a user typed."""
    known = model.ids_[view]
    wanted: Ids = np.array(ids)
    if known.dtype.kind in "iu":
        try:
            wanted = np.array([int(text) for text in ids], dtype=np.int64)
        except (ValueError, OverflowError):
            raise InputError(f"--id: the ids of {view!r} are integers, got {ids!r}") from None
    positions = find(known, wanted)
    if (positions < 0).any():
        absent = plain_id(wanted[positions < 0][0])
        some = ", ".join(repr(plain_id(one)) for one in known[:3])
        raise InputError(
            f"--id: {absent!r} is not among the {len(known):,} ids of {view!r}, such as {some}; "
            "--rows takes new entities"
        )
    return Embeddings(wanted, model.embeddings_[view][positions])


def _linked(
    model: PMvGE,
    background: Background | None,
    view: str,
    among: str,
    positions: NDArray[np.int64],
) -> sparse.csr_array:
    """Which candidates (columns) each query (row) is linked to already."""
    shape = (len(positions), len(model.ids_[among]))
    parts = background.of_pair(view, among) if background else (None, None)
    total = sparse.csr_array((len(model.ids_[view]), shape[1]))
    for links in parts:
        if links is not None:
            total = total + links.matrix()
    old = positions >= 0
    place = sparse.csr_array(
        (np.ones(old.sum()), (np.flatnonzero(old), positions[old])),
        shape=(len(positions), len(model.ids_[view])),
    )
    return sparse.csr_array(place @ total)


def _selves(positions: NDArray[np.int64], n: int) -> sparse.csr_array:
    old = np.flatnonzero(positions >= 0)
    ones = np.ones(len(old))
    return sparse.csr_array((ones, (old, positions[old])), shape=(len(positions), n))


def _show(result: dict[str, Any], view: str, among: str, key: str, known: bool) -> None:
    table = Table(title=visible(f"{view} {result['id']}: best of {among}"), title_justify="left")
    table.add_column("id", no_wrap=True)
    table.add_column(key.replace("_", " "), justify="right")
    if known:
        table.add_column("linked already?")
    for partner in result["partners"]:
        mark = ["yes" if partner["known"] else ""] if known else []
        table.add_row(cell(partner["id"]), f"{partner[key]:.4g}", *mark)
    Console(highlight=False, markup=False).print(table)
