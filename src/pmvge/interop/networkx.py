"""Conversion of graphs to and from networkx."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import Any

import networkx
import numpy as np

from pmvge.errors import GraphError, short
from pmvge.graph import MultiViewGraph, Pair
from pmvge.interop.attributes import check_attribute
from pmvge.interop.instances import check_instance

LinkLists = tuple[list[int], list[int], list[float]]


def to_networkx(graph: MultiViewGraph) -> networkx.Graph:
    """Return a graph as an undirected networkx graph.

    Nodes are ``(view, id)`` with the attributes ``view``, ``id`` and, for views with features,
    ``x`` (one row). Edges have a ``weight``. ``network.graph["pairs"]`` lists the observed view
    pairs, and ``network.graph["default_ids"]`` the views whose ids were not given.
    """
    default_ids = [view for view in graph.view_names if view not in graph.given_ids]
    network = networkx.Graph(pairs=list(graph.links), default_ids=default_ids)
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


def from_networkx(
    network: networkx.Graph,
    *,
    view: str | None = "view",
    features: str | None = "x",
    id: str | None = "id",
    weight: str | None = "weight",
    pairs: list[Pair] | None = None,
) -> MultiViewGraph:
    """Return a graph from an undirected networkx graph.

    The parameters name the attributes to read; None reads none. A node without ``view`` is in the
    view "node"; an integer, such as networkx's "bipartite", becomes a string. A node without ``id``
    has its key as id, an integer or a string. These ids are given ones, except in the views that
    ``network.graph["default_ids"]`` lists, if ``id`` is "id". An edge without ``weight`` has weight
    1; weights of parallel edges add up. A view is featureless if none of its nodes has
    ``features``. ``pairs`` are the observed view pairs: by default ``network.graph["pairs"]``, else
    those that have an edge. Raise GraphError if the network is directed, if no node or edge has an
    attribute that you named, if a view or an id has another type, if only some nodes of a view have
    features, or if an edge joins a view pair that is not observed.
    """
    check_instance("from_networkx", network, "networkx", "Graph")
    if network.is_directed():
        raise GraphError(
            "from_networkx: expected an undirected graph, got a directed one; "
            "call to_undirected() first"
        )
    nodes = [data for _, data in network.nodes(data=True)]
    for parameter, name, default in (("view", view, "view"), ("features", features, "x")):
        check_attribute("from_networkx", parameter, name, default, nodes)
    check_attribute("from_networkx", "id", id, "id", nodes)
    edges = (data for _, _, data in network.edges(data=True))
    check_attribute("from_networkx", "weight", weight, "weight", edges)
    positions: dict[Hashable, tuple[str, int]] = {}
    members: dict[str, list[Hashable]] = defaultdict(list)
    for key, name in _views(network, view):
        positions[key] = (name, len(members[name]))
        members[name].append(key)
    rows = {name: _features(network, name, keys, features) for name, keys in members.items()}
    ids = {name: _ids(network, name, keys, id) for name, keys in members.items()}
    observed = pairs if pairs is not None else network.graph.get("pairs", [])
    tables: dict[Pair, LinkLists] = {(a, b): ([], [], []) for a, b in observed}
    for left, right, data in network.edges(data=True):
        (a, i), (b, j) = positions[left], positions[right]
        if (a, b) not in tables and (b, a) in tables:
            (a, i), (b, j) = (b, j), (a, i)
        if (a, b) not in tables:
            if observed:
                raise GraphError(
                    f"from_networkx: expected edges of the view pairs {list(tables)}, got one "
                    f"between {a!r} and {b!r}"
                )
            tables[a, b] = ([], [], [])
        link_rows, link_cols, weights = tables[a, b]
        link_rows.append(i)
        link_cols.append(j)
        weights.append(data.get(weight, 1.0))
    graph = MultiViewGraph(rows, tables, ids)
    # Default ids are kept as they are: in a part of a network they need not be 0..n-1.
    default_ids = network.graph.get("default_ids", []) if id == "id" else []
    given_ids = graph.given_ids.difference(default_ids)
    return graph.trusted(graph.sizes, graph.views, graph.ids, graph.links, given_ids=given_ids)


def _views(network: networkx.Graph, attribute: str | None) -> Iterator[tuple[Hashable, str]]:
    """Yield the nodes and the names of their views; integers become strings."""
    given: dict[str, Any] = {}
    for key, data in network.nodes(data=True):
        value = data.get(attribute, "node")
        if not isinstance(value, str | int | np.integer) or isinstance(value, bool):
            raise GraphError(
                f"from_networkx: node {short(key)}: {attribute!r}: expected a string or an "
                f"integer, got {short(value)}"
            )
        name = str(value)
        if isinstance(given.setdefault(name, value), str) != isinstance(value, str):
            raise GraphError(
                f"from_networkx: {attribute!r}: expected all strings or all integers, got "
                f"{given[name]!r} and {value!r}"
            )
        yield key, name


def _ids(
    network: networkx.Graph, name: str, keys: list[Hashable], attribute: str | None
) -> list[Any]:
    """Return the ids of a view; raise GraphError if they are neither integers nor strings."""
    ids = [network.nodes[key].get(attribute, key) for key in keys]
    for value in ids:
        if not isinstance(value, str | int | np.integer):
            raise GraphError(
                f"from_networkx: view {name!r}: expected integers or strings as nodes, or in the "
                f"attribute {attribute!r}, got {short(value)}; call "
                "networkx.relabel_nodes(network, str) first"
            )
    return ids


def _features(
    network: networkx.Graph, name: str, keys: list[Hashable], attribute: str | None
) -> Any:
    """Return the stacked rows of a view, or its size if it has no features."""
    rows = [network.nodes[key].get(attribute) for key in keys]
    absent = sum(row is None for row in rows)
    if absent == len(rows):
        return len(rows)
    if absent:
        raise GraphError(
            f"from_networkx: view {name!r}: {absent} of {len(rows)} nodes have no {attribute!r}; "
            "give it to all nodes of the view, or to none"
        )
    shapes = {np.shape(row) for row in rows}
    if len(shapes) > 1:
        raise GraphError(
            f"from_networkx: view {name!r}: expected rows of one shape, got {sorted(shapes)}"
        )
    return np.stack([np.asarray(row) for row in rows])
