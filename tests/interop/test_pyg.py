"""Conversion to and from PyTorch Geometric keeps views, features, ids and weights."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import GraphError
from pmvge.interop import from_pyg, to_pyg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its import
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.transforms import ToSparseTensor, ToUndirected
    from torch_geometric.utils import to_scipy_sparse_matrix


def hetero() -> HeteroData:
    data = HeteroData()
    data["user"].num_nodes = 3
    data["user"].id = ["ann", "bob", "cy"]
    data["film"].x = torch.arange(8.0).reshape(4, 2)
    data["user", "rates", "film"].edge_index = torch.tensor([[0, 1, 1, 2], [0, 0, 3, 2]])
    data["user", "rates", "film"].edge_weight = torch.tensor([1.0, 2.0, 3.0, 0.5])
    data["user", "follows", "user"].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data


def test_node_types_are_views_and_edge_types_are_links() -> None:
    data = hetero()
    graph = from_pyg(data)
    assert graph.sizes == {"film": 4, "user": 3}
    assert graph.ids["user"].tolist() == ["ann", "bob", "cy"]
    assert graph.given_ids == {"user"}
    np.testing.assert_array_equal(graph.views["film"], data["film"].x.numpy())
    store = data["user", "rates", "film"]
    wanted = sparse.coo_array((store.edge_weight, tuple(store.edge_index.numpy())), shape=(3, 4))
    np.testing.assert_array_equal(graph.links["user", "film"].matrix().toarray(), wanted.toarray())
    follows = to_scipy_sparse_matrix(data["user", "follows", "user"].edge_index, num_nodes=3)
    np.testing.assert_array_equal(
        graph.links["user", "user"].matrix().toarray(), (follows + follows.T).toarray()
    )


def test_reverse_edges_of_to_undirected_are_the_same_links() -> None:
    undirected = ToUndirected()(hetero())
    assert ("film", "rev_rates", "user") in undirected.edge_types
    graph, wanted = from_pyg(undirected), from_pyg(hetero())
    assert list(graph.links) == list(wanted.links)
    for pair, links in wanted.links.items():
        assert (links.matrix() != graph.links[pair].matrix()).nnz == 0


def dense(graph: MultiViewGraph) -> dict:
    return {pair: links.matrix().toarray().tolist() for pair, links in graph.links.items()}


def test_an_exact_transpose_is_the_reverse_under_any_name() -> None:
    """PyTorch Geometric's DBLP and IMDB call both directions "to"."""
    data, wanted = hetero(), dense(from_pyg(hetero()))
    back = data["film", "to", "user"]
    back.edge_index = data["user", "rates", "film"].edge_index.flip(0)[:, [2, 0, 3, 1]]
    back.edge_weight = data["user", "rates", "film"].edge_weight[[2, 0, 3, 1]]
    data["user", "followed_by", "user"].edge_index = torch.tensor([[2, 1], [1, 0]])
    assert dense(from_pyg(data)) == wanted
    back.edge_weight = torch.ones(4)
    with pytest.raises(GraphError, match=r"expected one edge type for 'film' and 'user'"):
        from_pyg(data)


def test_both_layouts_of_edges_are_the_same_links() -> None:
    wanted = dense(from_pyg(hetero()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch checks no sparse tensors by default
        transposed = ToSparseTensor()(hetero())
    assert "edge_index" not in transposed["user", "rates", "film"]
    assert dense(from_pyg(transposed)) == wanted
    arrays = hetero()
    for store in arrays.edge_stores:
        store.edge_index = store.edge_index.numpy()
    assert dense(from_pyg(arrays)) == wanted


@pytest.mark.parametrize(
    "convert",
    [
        lambda w: w.clone().requires_grad_(),
        lambda w: w.to(torch.bfloat16),
        lambda w: w.to(torch.float16),
        lambda w: w.numpy(),
        lambda w: w.tolist(),
    ],
)
def test_weights_and_features_may_be_any_array_of_numbers(convert) -> None:
    data = hetero()
    data["film"].x = convert(data["film"].x)
    store = data["user", "rates", "film"]
    store.edge_weight = convert(store.edge_weight)
    graph = from_pyg(data)
    assert dense(graph) == dense(from_pyg(hetero()))
    np.testing.assert_array_equal(graph.views["film"], np.arange(8.0).reshape(4, 2))


def test_sparse_features_of_any_kind() -> None:
    for X in (
        torch.eye(4, dtype=torch.bfloat16).to_sparse(),
        torch.eye(4).to_sparse_csr(),
        sparse.eye_array(4).tocsr(),
    ):
        data = hetero()
        data["film"].x = X
        np.testing.assert_array_equal(from_pyg(data).views["film"].toarray(), np.eye(4))


def test_what_cannot_be_read_is_explained() -> None:
    single = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]))
    message = r"from_pyg: expected torch_geometric\.data\.HeteroData, got Data; .*to_heterogeneous"
    with pytest.raises(GraphError, match=message):
        from_pyg(single)
    assert from_pyg(single.to_heterogeneous()).n_links == 2
    data = hetero()
    del data["user"].num_nodes
    message = r"node type 'user': expected 'x' or num_nodes, .* set data\['user'\]\.num_nodes"
    with pytest.raises(GraphError, match=message):
        from_pyg(data)
    data = hetero()
    data["user", "follows", "user"].edge_index = torch.zeros(3, 2, dtype=torch.int64)
    message = r"'follows', 'user'\): edge_index: expected shape \(2, edges\), got shape \(3, 2\)"
    with pytest.raises(GraphError, match=message):
        from_pyg(data)


def test_round_trip() -> None:
    rng = np.random.default_rng(0)
    graph = MultiViewGraph(
        {
            "a": rng.normal(size=(5, 2, 3)),
            "b": sparse.random_array((6, 4), density=0.3, rng=rng),
            "c": 3,
        },
        {
            ("a", "b"): ([0, 1, 4], [5, 0, 2], [1.0, 2.5, 3.0]),
            ("a", "a"): ([0, 1], [3, 2], [2.0, 0.5]),
            ("b", "c"): ([0], [1], [1.0]),
        },
        {"b": [10, 20, 30, 40, 50, 60], "c": ["x", "y", "z"]},
    )
    data = to_pyg(graph)
    assert data.validate()
    assert data["a", "links", "a"].is_undirected()
    back = from_pyg(data)
    assert back.given_ids == graph.given_ids
    for view, X in graph.views.items():
        assert back.ids[view].tolist() == graph.ids[view].tolist()
        if X is None:
            assert back.views[view] is None
        elif isinstance(X, np.ndarray):
            np.testing.assert_array_equal(back.views[view], X)
        else:
            assert abs(back.views[view] - X).max() == 0
    for pair, links in graph.links.items():
        np.testing.assert_allclose(
            back.links[pair].matrix().toarray(), links.matrix().toarray(), rtol=1e-7
        )


def test_a_model_is_fitted_and_its_vectors_have_the_order_of_the_nodes() -> None:
    data = hetero()
    model = PMvGE(n_components=3, max_steps=5, random_state=0).fit(from_pyg(data))
    assert model.embeddings_["film"].shape == (data["film"].num_nodes, 3)
    assert model.ids_["user"].tolist() == data["user"].id


def test_edges_may_have_other_attributes() -> None:
    data = hetero()
    data["user", "rates", "film"].edge_attr = torch.tensor([[5.0], [6.0], [7.0], [8.0]])
    assert from_pyg(data, weight="edge_attr").links["user", "film"].total == 26
    assert from_pyg(data, weight=None).links["user", "film"].total == 4
    data["user", "rates", "film"].edge_attr = torch.ones(4, 2)
    with pytest.raises(GraphError, match=r"edge_attr: expected one number for each of 4 edges"):
        from_pyg(data, weight="edge_attr")


def test_two_edge_types_of_a_view_pair_are_an_error() -> None:
    data = hetero()
    data["film", "seen_by", "user"].edge_index = torch.tensor([[0], [2]])
    with pytest.raises(GraphError, match=r"expected one edge type for 'film' and 'user', .*rates"):
        from_pyg(data)
    chosen = from_pyg(data, edge_types=[("film", "seen_by", "user")])
    assert list(chosen.links) == [("film", "user")]
    for unknown in ("a", "b", "c"), ("user", "film"):
        with pytest.raises(GraphError, match=r"unknown edge type \('.*'\): expected one of"):
            from_pyg(data, edge_types=[unknown])


def test_directed_edges_in_both_orders_need_symmetrize() -> None:
    data = hetero()
    data["user", "follows", "user"].edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
    with pytest.raises(GraphError, match="symmetrize"):
        from_pyg(data)
    links = from_pyg(data, symmetrize="sum").links["user", "user"]
    assert links.matrix().toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    del data["user", "follows", "user"].edge_index
    data["user", "follows", "user"].edge_attr = torch.ones(1)
    with pytest.raises(GraphError, match="expected edge_index or adj_t, got edge_attr"):
        from_pyg(data)


def test_attributes_that_nothing_has_are_an_error() -> None:
    data = hetero()
    data["user", "rates", "film"].edge_attr = torch.ones(4)
    message = r"^from_pyg: weight: unknown attribute 'edge_atr': .* did you mean 'edge_attr'"
    with pytest.raises(GraphError, match=message):
        from_pyg(data, weight="edge_atr")
    with pytest.raises(GraphError, match=r"^from_pyg: features: unknown attribute 'feat'"):
        from_pyg(data, features="feat")
    with pytest.raises(GraphError, match=r"^from_pyg: id: unknown attribute 'node_id'"):
        from_pyg(data, id="node_id")
    plain = from_pyg(data, features=None, id=None)
    assert plain.views["film"] is None
    assert not plain.given_ids


def test_a_node_type_of_edges_only_is_named_and_not_added() -> None:
    data = hetero()
    data["film", "has", "genre"].edge_index = torch.tensor([[0, 1], [0, 7]])
    message = r"node type 'genre': expected 'x' or num_nodes, got neither; set data\['genre'\]"
    with pytest.raises(GraphError, match=message):
        from_pyg(data)
    assert data.node_types == ["user", "film"]
    data["genre"].num_nodes = 8
    assert from_pyg(data).sizes["genre"] == 8
