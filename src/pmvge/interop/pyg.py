"""Conversion of graphs to and from PyTorch Geometric's ``HeteroData``."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from scipy import sparse

from pmvge.errors import GraphError, InputError
from pmvge.graph import Features, MultiViewGraph, Pair

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

RELATION = "links"
EdgeType = tuple[str, str, str]


def from_pyg(
    data: HeteroData,
    *,
    features: str = "x",
    weight: str = "edge_weight",
    id: str = "id",
    edge_types: Collection[EdgeType] | None = None,
    symmetrize: Literal["sum", "max"] | None = None,
) -> MultiViewGraph:
    """Return the graph of a ``HeteroData`` object: node types are views, edge types are links.

    Parameters
    ----------
    data
        Heterogeneous graph with an ``edge_index`` for each edge type.
    features, id
        Attributes of nodes: rows of features, and ids. A node type without ``features`` is a view
        without features, one without ``id`` has default ids.
    weight
        Attribute of edges, one number each; an edge type without it has weight 1 everywhere.
        Repeated edges add up.
    edge_types
        The edge types to use. None: all, without the reverse ones that PyTorch Geometric's
        ``ToUndirected`` adds (named "rev_..."). Links have no relation names, so that a view pair
        can have one edge type only.
    symmetrize
        How to merge the two orders of an edge within a node type, "sum" or "max"; needed for
        directed edges that occur in both orders.

    Raises
    ------
    GraphError
        If two edge types join the same node types, or features or edges are not valid.
    """
    where = "from_pyg"
    known: list[EdgeType] = list(data.edge_types)
    chosen = known if edge_types is None else [(a, kind, b) for a, kind, b in edge_types]
    for kind in chosen:
        if kind not in known:
            raise GraphError(f"{where}: unknown edge type {kind}: expected one of {known}")
    if edge_types is None:
        chosen = [kind for kind in chosen if not _is_reverse(kind, known)]
    links: dict[Pair, Any] = {}
    for a, relation, b in chosen:
        if (a, b) in links or (b, a) in links:
            listed = [kind for kind in chosen if {kind[0], kind[2]} == {a, b}]
            raise GraphError(
                f"{where}: expected one edge type for {a!r} and {b!r}, got {listed}; choose with "
                "edge_types=[...], or add their edges up"
            )
        store = data[a, relation, b]
        if "edge_index" not in store:
            raise GraphError(f"{where}: edge type {(a, relation, b)}: expected an edge_index")
        rows, cols = store["edge_index"].cpu().numpy()
        weights = store[weight].cpu().numpy() if weight in store else np.ones(len(rows))
        if weights.size != len(rows):
            raise GraphError(
                f"{where}: edge type {(a, relation, b)}: {weight}: expected one number for each of "
                f"{len(rows):,} edges, got shape {weights.shape}"
            )
        links[a, b] = (rows, cols, weights.reshape(-1))
    views, ids = {}, {}
    for view in data.node_types:
        store = data[view]
        views[view] = _rows(store[features]) if features in store else store.num_nodes
        if id in store:
            given = store[id]
            ids[view] = given.tolist() if hasattr(given, "tolist") else list(given)
    return MultiViewGraph(views, links, ids, symmetrize=symmetrize)


def _is_reverse(kind: EdgeType, known: Collection[Any]) -> bool:
    """Return whether an edge type holds the edges of another one in the other direction."""
    a, relation, b = kind
    return relation.startswith("rev_") and (b, relation.removeprefix("rev_"), a) in known


def _rows(x: torch.Tensor) -> Any:
    """Return features as the graph takes them; a sparse tensor as a scipy matrix."""
    if x.layout == torch.strided:
        return x.detach().cpu()
    coo = x.detach().cpu().to_sparse_coo().coalesce()
    values, (rows, cols) = coo.values().numpy(), coo.indices().numpy()
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
