"""Start training from a fitted model: check that a graph fits it, and copy what was learned.

Encoders, input scaling, similarity, family and priors are copied. Entities that the model knows
keep their effects and free vectors; effects of new ones are folded in from their links with known
entities, and free vectors start small and random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from pmvge.encoders import Lookup, MultiViewEncoder, schemas_of
from pmvge.errors import InputError, ParameterError, short
from pmvge.graph import Ids, MultiViewGraph, find_ids
from pmvge.likelihoods import Family, family_name
from pmvge.model.fitted import Fitted
from pmvge.model.fold_in.first_links import FirstLinks
from pmvge.model.fold_in.fold_in import fold_in_effects
from pmvge.similarities import similarity_name

# What a link of a table means; how the file is written may change.
LINK_KEYS = ("pair", "columns", "weight", "aggregate", "symmetrize", "transform")
Positions = Mapping[str, NDArray[np.int64]]  # of a graph's entities in a model, -1 for new ones


def match_graph(start: Fitted, graph: MultiViewGraph, where: str = "start") -> MultiViewGraph:
    """Return the graph with its view pairs in the order of a model's.

    Raise InputError if views, view pairs, dimensions, columns or types of ids differ.
    """
    if not isinstance(graph, MultiViewGraph):
        raise InputError(f"{where}: expected a MultiViewGraph, got {type(graph).__name__}")
    if set(graph.view_names) != set(start.schemas):
        raise InputError(
            f"{where}: expected the views of the model, {_listed(start.schemas)}, got "
            f"{_listed(graph.view_names)}"
        )
    links = {}
    for a, b in start.alpha:
        if (a, b) in graph.links:
            links[a, b] = graph.links[a, b]
        elif (b, a) in graph.links:
            links[a, b] = graph.links[b, a].transposed()
    if len(links) != len(start.alpha) or len(links) != len(graph.links):
        raise InputError(
            f"{where}: expected links of the model's view pairs, {_pairs(start.alpha)}, got "
            f"{_pairs(graph.links)}"
        )
    _check_columns(start, graph, where)
    schemas = schemas_of(graph)
    for view, schema in start.schemas.items():
        given = schemas[view]
        if (given.row_shape, given.sparse) != (schema.row_shape, schema.sparse):
            raise InputError(
                f"{where}: view {view!r}: expected the features of the model, "
                f"{schema.describe()}, got {given.describe()}"
            )
        _check_id_type(view, start.ids[view], graph.ids[view], where)
    return graph.with_links(links)


def positions_in(start: Fitted, graph: MultiViewGraph) -> Positions:
    """Return which entities of a model those of a graph are, by ids that were given to both.

    In a view without features all ids count.
    """
    return {
        view: find_ids(start.ids[view], ids)
        if graph.views[view] is None or (view in start.given_ids and view in graph.given_ids)
        else np.full(len(ids), -1, np.int64)
        for view, ids in graph.ids.items()
    }


def check_settings(
    start: Fitted, settings: Mapping[str, Any], family: Family, effects: Mapping[str, str]
) -> None:
    """Raise ParameterError if settings that must be those of the model differ.

    ``family`` and ``effects`` are what the settings give for the graph.
    """
    compared = {
        "n_components": (start.n_components, settings["n_components"]),
        "similarity": (similarity_name(start.similarity), settings["similarity"]),
        "family": (family_name(start.family), family_name(family)),
        "effects": (dict(start.effects), dict(effects)),
    }
    for name, (value, given) in compared.items():
        if given != value:
            raise ParameterError(
                f"start: {name}: expected the value of the model, {value!r}, got {given!r}"
            )


def copy_learned(
    network: MultiViewEncoder, start: Fitted, graph: MultiViewGraph, training: MultiViewGraph
) -> None:
    """Set a network's weights and buffers to those of a model.

    ``training`` has the links that new entities are folded in from. Raise ParameterError if the
    encoders are not those of the model.
    """
    positions = positions_in(start, graph)
    old, state = start.network.state_dict(), network.state_dict()
    by_row = _row_tables(network)
    for name, tensor in state.items():
        before = old.get(name)
        columns = slice(1, None) if name in by_row else slice(None)
        if before is None or before.shape[columns] != tensor.shape[columns]:
            raise _other_encoders(name, tensor, before)
        if name not in by_row:
            state[name] = before
            continue
        at = torch.from_numpy(np.asarray(positions[by_row[name]]))
        known = at >= 0
        rows = tensor.clone()
        rows[known] = before[at[known]].to(rows)
        state[name] = rows
    if missing := set(old) - set(state):
        name = min(missing)
        raise _other_encoders(name, None, old[name])
    network.load_state_dict(state)
    for view in network.bias_pairs:
        effects = network.effects_of(view)
        if effects is None:
            continue
        new = np.flatnonzero(positions[view] < 0)
        first = _first_links(start, training, view, positions, new)
        if not any(matrix.nnz for matrix in first.values()):
            continue
        X: Any = graph.views[view]
        found = fold_in_effects(start, view, None if X is None else X[new], first)
        linked = np.zeros(len(new), bool)
        for matrix in first.values():
            linked |= np.diff(matrix.indptr) > 0
        effects.weight.data[new[linked]] = torch.from_numpy(found[linked]).to(effects.weight)


def weights_hash(start: Fitted) -> str:
    """Return a hash of what a model has learned, for the fingerprint of a checkpoint."""
    digest = hashlib.sha256()
    for name, tensor in sorted(start.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return digest.hexdigest()


def _row_tables(network: MultiViewEncoder) -> dict[str, str]:
    """Return the names of tensors that have a row for each entity, and their views."""
    modules: dict[nn.Module, str] = {}
    for view in network.views:
        if isinstance(encoder := network.encoder_of(view), Lookup):
            modules[encoder] = view
        if (effects := network.effects_of(view)) is not None:
            modules[effects] = view
    return {
        f"{name}.weight": modules[module]
        for name, module in network.named_modules()
        if module in modules
    }


def _first_links(
    start: Fitted,
    graph: MultiViewGraph,
    view: str,
    positions: Positions,
    new: NDArray[np.int64],
) -> FirstLinks:
    """Return the weights of links of new entities with known ones, (new, entities of the model)."""
    row_of = np.full(graph.sizes[view], -1, np.int64)
    row_of[new] = np.arange(len(new))
    found: dict[str, Any] = {}
    for pair, links in graph.links.items():
        ends = (links.rows, links.cols)
        for side, other in ((0, 1), (1, 0)):
            if pair[side] != view or not np.isfinite(start.log_alpha_of(*pair)):
                continue
            rows, columns = row_of[ends[side]], positions[pair[other]][ends[other]]
            use = (rows >= 0) & (columns >= 0)
            part = sparse.csr_array(
                (links.weights[use], (rows[use], columns[use])),
                shape=(len(new), len(start.ids[pair[other]])),
            )
            found[pair[other]] = part + found[pair[other]] if pair[other] in found else part
    return {other: sparse.csr_array(matrix) for other, matrix in found.items()}


def _check_columns(start: Fitted, graph: MultiViewGraph, where: str) -> None:
    """Raise InputError if tables were read with other columns, or encoded in another way."""
    if start.tables is None or graph.tables is None:
        return
    for view, before in start.tables["views"].items():
        after = graph.tables["views"][view]
        expected, found = (_columns(entry["recipe"]) for entry in (before, after))
        if expected != found:
            raise InputError(
                f"{where}: view {view!r}: expected the columns of the model, "
                f"{_listed(expected)}, got {_listed(found)}; fit a new model for other columns"
            )
        if _plain(before["recipe"]) != _plain(after["recipe"]):
            raise InputError(
                f"{where}: view {view!r}: its columns were encoded by the new table; read it with "
                "the encodings of the model: read_graph(path, tables=model.tables_)"
            )
    expected, found = (
        [
            _plain({key: entry.get(key) for key in LINK_KEYS})
            for entry in sorted(tables["links"], key=lambda e: sorted(e["pair"]))
        ]
        for tables in (start.tables, graph.tables)
    )
    for one, other in zip(expected, found, strict=True):
        if one != other:
            raise InputError(f"{where}: link tables: expected {one}, as in training, got {other}")


def _columns(recipe: Any) -> list[str]:
    return [column for block in recipe["blocks"] for column in block["columns"]] if recipe else []


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _check_id_type(view: str, known: Ids, given: Ids, where: str) -> None:
    kinds = ["integers" if ids.dtype.kind in "iu" else "text" for ids in (known, given)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{where}: view {view!r}: expected ids of the model's type, {kinds[0]} such as "
            f"{short(known[0].item())}, got {kinds[1]} such as {short(given[0].item())}"
        )


def _other_encoders(
    name: str, tensor: torch.Tensor | None, before: torch.Tensor | None
) -> ParameterError:
    shapes = [None if t is None else tuple(t.shape) for t in (before, tensor)]
    return ParameterError(
        f"start: expected the encoders of the model, but {name} has shape {shapes[0]} there and "
        f"{shapes[1]} here (None: it is missing); use the encoder settings of the model"
    )


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "none"


def _pairs(pairs: Any) -> str:
    return _listed(",".join(pair) for pair in pairs)
