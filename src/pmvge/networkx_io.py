"""The parts of a graph to and from networkx."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import networkx
import numpy as np

from pmvge.errors import GraphError
from pmvge.links import Pair

if TYPE_CHECKING:
    from pmvge.graph import MultiViewGraph

Table = tuple[list[int], list[int], list[float]]


def write_network(graph: MultiViewGraph) -> networkx.Graph:
    """The undirected networkx graph that MultiViewGraph.to_networkx describes."""
    network = networkx.Graph(pairs=list(graph.links))
    keys = {view: [(view, i) for i in ids.tolist()] for view, ids in graph.ids.items()}
    for view, features in graph.views.items():
        for row, key in enumerate(keys[view]):
            network.add_node(key, view=view, id=key[1])
            if features is not None:
                x = features[[row]]
                network.nodes[key]["x"] = (x if isinstance(x, np.ndarray) else x.toarray())[0]
    for (a, b), links in graph.links.items():
        for i, j, w in zip(
            links.rows.tolist(), links.cols.tolist(), links.weights.tolist(), strict=True
        ):
            network.add_edge(keys[a][i], keys[b][j], weight=w)
    return network


def read_network(
    network: networkx.Graph,
    *,
    view: str,
    features: str,
    id: str,
    weight: str,
    pairs: list[Pair] | None,
) -> tuple[dict[str, Any], dict[Pair, Any], dict[str, Any]]:
    """Views, links and ids of an undirected networkx graph; see MultiViewGraph.from_networkx."""
    if network.is_directed():
        raise GraphError("from_networkx: expected an undirected graph; call to_undirected() first")
    place: dict[Hashable, tuple[str, int]] = {}
    members: dict[str, list[Hashable]] = defaultdict(list)
    for key, name in network.nodes(data=view, default="node"):
        place[key] = (name, len(members[name]))
        members[name].append(key)
    rows = {name: _features(network, name, keys, features) for name, keys in members.items()}
    ids = {
        name: [network.nodes[key].get(id, key) for key in keys] for name, keys in members.items()
    }
    observed = pairs if pairs is not None else network.graph.get("pairs", [])
    tables: dict[Pair, Table] = {(a, b): ([], [], []) for a, b in observed}
    for left, right, w in network.edges(data=weight, default=1.0):
        (a, i), (b, j) = place[left], place[right]
        if (a, b) not in tables and (b, a) in tables:
            (a, i), (b, j) = (b, j), (a, i)
        if (a, b) not in tables:
            if observed:
                raise GraphError(f"from_networkx: an edge joins {a!r} and {b!r}, not among pairs")
            tables[a, b] = ([], [], [])
        rows_of, cols_of, weights_of = tables[a, b]
        rows_of.append(i)
        cols_of.append(j)
        weights_of.append(w)
    return rows, tables, ids


def _features(network: networkx.Graph, name: str, keys: list[Hashable], attribute: str) -> Any:
    """The stacked rows of a view, or its size if it has none."""
    rows = [network.nodes[key].get(attribute) for key in keys]
    absent = sum(row is None for row in rows)
    if absent == len(rows):
        return len(rows)
    if absent:
        raise GraphError(
            f"from_networkx: view {name!r}: {absent} of {len(rows)} nodes have no {attribute!r}"
        )
    shapes = {np.shape(row) for row in rows}
    if len(shapes) > 1:
        raise GraphError(f"from_networkx: view {name!r}: rows differ in shape: {sorted(shapes)}")
    return np.stack([np.asarray(row) for row in rows])
