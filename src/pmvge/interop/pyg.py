"""Conversion of graphs to and from PyTorch Geometric's ``HeteroData``."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import GraphError, InputError
from pmvge.graph import Features, MultiViewGraph, Pair
from pmvge.interop.attributes import check_attribute
from pmvge.interop.instances import check_instance

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

RELATION = "links"
EdgeType = tuple[str, str, str]
Edges: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # rows, columns, weights


def from_pyg(
    data: HeteroData,
    *,
    features: str | None = "x",
    weight: str | None = "edge_weight",
    id: str | None = "id",
    edge_types: Collection[EdgeType] | None = None,
    symmetrize: Literal["sum", "max"] | None = None,
) -> MultiViewGraph:
    """Return the graph of a ``HeteroData`` object: node types are views, edge types are links.

    Parameters
    ----------
    data
        Heterogeneous graph with an ``edge_index``, or an ``adj_t``, for each edge type.
    features, id
        Attributes of nodes: rows of features, and ids. A node type without ``features`` is a view
        without features, one without ``id`` has default ids. None: no node type has them.
    weight
        Attribute of edges, one number each, such as "edge_attr"; an edge type without it has the
        values of ``adj_t`` as weights, or weight 1 everywhere. None: no edge type has it. Repeated
        edges add up.
    edge_types
        The edge types to use. None: all, without the reverse ones that PyTorch Geometric's
        ``ToUndirected`` adds (named "rev_..."). An edge type with the same edges as another one,
        in the other direction, is left out as well. Links have no relation names, so that a view
        pair can have one edge type only.
    symmetrize
        How to merge the two orders of an edge within a node type, "sum" or "max"; needed for
        directed edges that occur in both orders.

    Raises
    ------
    GraphError
        If ``data`` is no ``HeteroData``, if nothing has an attribute that you named, if two edge
        types join the same node types, or if features, edges or the number of nodes are missing or
        not valid.
    """
    where = "from_pyg"
    hint = "; convert a Data with data.to_heterogeneous()"
    check_instance(where, data, "torch_geometric.data", "HeteroData", hint)
    known: list[EdgeType] = list(data.edge_types)
    chosen: list[Any] = known if edge_types is None else list(map(tuple, edge_types))
    for kind in chosen:
        if kind not in known:
            raise GraphError(f"{where}: unknown edge type {kind}: expected one of {known}")
    if edge_types is None:
        chosen = [kind for kind in chosen if not _is_reverse(kind, known)]
    nodes = {view: data[view] for view in data.node_types}
    stores = [data[kind].keys() for kind in chosen]
    check_attribute(where, "weight", weight, "edge_weight", stores)
    for parameter, name, default in (("features", features, "x"), ("id", id, "id")):
        check_attribute(where, parameter, name, default, [s.keys() for s in nodes.values()])
    links: dict[Pair, Edges] = {}
    for a, relation, b in chosen:
        edges = _edges(f"{where}: edge type {(a, relation, b)}", data[a, relation, b], weight)
        if (b, a) in links and _are_transposed(edges, links[b, a]):
            continue
        if (a, b) in links or (b, a) in links:
            listed = [kind for kind in chosen if {kind[0], kind[2]} == {a, b}]
            raise GraphError(
                f"{where}: expected one edge type for {a!r} and {b!r}, got {listed}; choose with "
                "edge_types=[...], or add their edges up"
            )
        links[a, b] = edges
    views, ids = {}, {}
    for view in dict.fromkeys([*nodes, *(end for pair in links for end in pair)]):
        store = nodes.get(view, {})  # data[view] would add a node type to the data
        views[view] = _rows(store[features]) if features in store else _size(store)
        if views[view] is None:
            raise GraphError(
                f"{where}: node type {view!r}: expected {features!r} or num_nodes, got "
                f"{', '.join(store.keys()) or 'neither'}; set data[{view!r}].num_nodes"
            )
        if id in store:
            given = store[id]
            ids[view] = given.tolist() if hasattr(given, "tolist") else list(given)
    return MultiViewGraph(views, links, ids, symmetrize=symmetrize)


def _is_reverse(kind: EdgeType, known: Collection[Any]) -> bool:
    """Return whether the name of an edge type is that of the reverse of another one."""
    a, relation, b = kind
    return relation.startswith("rev_") and (b, relation.removeprefix("rev_"), a) in known


def _edges(where: str, store: Any, weight: str | None) -> Edges:
    """Return rows, columns and weights of an edge type; raise GraphError if they do not fit."""
    if "edge_index" in store:
        index, values = _array(store["edge_index"]), None
    elif "adj_t" in store:
        from torch_geometric.utils import to_edge_index

        transposed, values = to_edge_index(store["adj_t"])
        index = _array(transposed)[::-1]
    else:
        found = ", ".join(store.keys()) or "nothing"
        raise GraphError(f"{where}: expected edge_index or adj_t, got {found}")
    if index.ndim != 2 or len(index) != 2:
        raise GraphError(f"{where}: edge_index: expected shape (2, edges), got shape {index.shape}")
    if weight in store:
        values = store[weight]
    weights = np.ones(index.shape[1]) if values is None else _array(values)
    if weights.size != index.shape[1]:
        raise GraphError(
            f"{where}: {weight}: expected one number for each of {index.shape[1]:,} edges, got "
            f"shape {weights.shape}"
        )
    return index[0], index[1], weights.reshape(-1)


def _are_transposed(one: Edges, other: Edges) -> bool:
    """Return whether edges are those of the other list, in any order, with their ends swapped."""
    (rows, cols, weights), (other_cols, other_rows, other_weights) = one, other
    if len(rows) != len(other_rows):
        return False
    order = np.lexsort((weights, cols, rows))
    other_order = np.lexsort((other_weights, other_cols, other_rows))
    pairs = ((rows, other_rows), (cols, other_cols), (weights, other_weights))
    return all(np.array_equal(a[order], b[other_order]) for a, b in pairs)


def _size(store: Any) -> int | None:
    """Return the number of nodes of a type, None if it is not known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot be inferred
        return cast("int | None", getattr(store, "num_nodes", None))


def _array(values: Any) -> NDArray[Any]:
    """Return a dense tensor, or anything that numpy reads, as an array."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        if values.dtype == torch.bfloat16:  # numpy has no such type
            values = values.float()
    return np.asarray(values)


def _rows(x: Any) -> Any:
    """Return features as the graph takes them; a sparse tensor as a scipy matrix."""
    if not isinstance(x, torch.Tensor) or x.layout == torch.strided:
        return x
    coo = x.detach().cpu().to_sparse_coo().coalesce()
    values, (rows, cols) = _array(coo.values()), _array(coo.indices())
    return sparse.csr_array((values, (rows, cols)), shape=tuple(x.shape))


def to_pyg(graph: MultiViewGraph) -> HeteroData:
    """Return a graph as ``HeteroData``, for PyTorch Geometric's models and loaders.

    Views are node types with ``x`` (or ``num_nodes``) and, where ids were given, ``id``, a list.
    View pairs are edge types ``(view, "links", view)`` with ``edge_index`` and ``edge_weight``.
    Links within a view are in it in both directions; for the others, ``ToUndirected`` adds the
    reverse edge types. Sparse features become a sparse COO tensor. Raise InputError if PyTorch
    Geometric is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its import
            from torch_geometric.data import HeteroData
    except ImportError as error:
        raise InputError("to_pyg needs PyTorch Geometric: pip install 'pmvge[interop]'") from error
    data = HeteroData()
    for view, X in graph.views.items():
        if X is None:
            data[view].num_nodes = graph.sizes[view]
        else:
            data[view].x = _tensor(X)
        if view in graph.given_ids:
            data[view].id = graph.ids[view].tolist()
    for (a, b), links in graph.links.items():
        edges = np.stack([links.rows, links.cols]).astype(np.int64)
        weights = links.weights.astype(np.float32)
        if a == b:
            edges, weights = np.hstack([edges, edges[::-1]]), np.tile(weights, 2)
        data[a, RELATION, b].edge_index = torch.from_numpy(edges)
        data[a, RELATION, b].edge_weight = torch.from_numpy(weights)
    return data


def _tensor(X: Features) -> torch.Tensor:
    if isinstance(X, np.ndarray):
        return torch.from_numpy(np.array(X))  # a copy: the graph is read-only
    coo = sparse.coo_array(X)
    index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    values = torch.from_numpy(np.array(coo.data))
    return torch.sparse_coo_tensor(index, values, X.shape, check_invariants=True)
