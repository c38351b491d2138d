"""Conversion to and from networkx keeps nodes, features, weights and observed pairs."""

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.errors import GraphError
from pmvge.interop import from_networkx


def example() -> MultiViewGraph:
    return MultiViewGraph(
        views={
            "user": 2,
            "image": np.arange(12.0).reshape(3, 2, 2),
            "tag": sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]),
        },
        links={
            ("user", "image"): ([0, 1, 1], [0, 0, 2], [1.0, 2.0, 0.5]),
            ("image", "image"): ([0, 2], [1, 0], [3.0, 4.0]),
            ("tag", "user"): ([], []),
        },
        ids={"user": ["ann", "bob"], "tag": [10, 20]},
    )


def dense(graph: MultiViewGraph) -> dict:
    return {pair: links.matrix().toarray().tolist() for pair, links in graph.links.items()}


def test_nodes_have_view_id_and_features() -> None:
    network = example().to_networkx()
    assert sorted(network.nodes, key=str) == sorted(
        [
            ("user", "ann"),
            ("user", "bob"),
            ("tag", 10),
            ("tag", 20),
            *(("image", i) for i in range(3)),
        ],
        key=str,
    )
    assert network.nodes["user", "ann"] == {"view": "user", "id": "ann"}
    assert network.nodes["image", 1]["x"].tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert network.nodes["tag", 20]["x"].tolist() == [0.0, 2.0]
    assert type(network.nodes["tag", 20]["id"]) is int


def test_edges_have_weights_and_the_network_lists_observed_pairs() -> None:
    network = example().to_networkx()
    edges = {frozenset(edge[:2]): edge[2] for edge in network.edges(data="weight")}
    assert edges == {
        frozenset([("user", "ann"), ("image", 0)]): 1.0,
        frozenset([("user", "bob"), ("image", 0)]): 2.0,
        frozenset([("user", "bob"), ("image", 2)]): 0.5,
        frozenset([("image", 0), ("image", 1)]): 3.0,
        frozenset([("image", 0), ("image", 2)]): 4.0,
    }
    assert set(network.graph["pairs"]) == set(example().links)


def test_round_trip() -> None:
    graph = example()
    back = MultiViewGraph.from_networkx(graph.to_networkx())
    assert dense(back) == dense(graph)
    assert back.views["user"] is None
    assert np.array_equal(back.views["image"], graph.views["image"])
    assert np.array_equal(back.views["tag"], graph.views["tag"].toarray())
    assert {v: i.tolist() for v, i in back.ids.items()} == {
        v: i.tolist() for v, i in graph.ids.items()
    }
    assert back.given_ids == graph.given_ids == {"user", "tag"}


def test_default_ids_of_a_part_of_a_network_stay_default_ids() -> None:
    network = example().to_networkx()
    network.remove_nodes_from([("image", 0), ("tag", 10)])
    part = MultiViewGraph.from_networkx(network)
    assert part.ids["image"].tolist() == [1, 2]
    assert part.given_ids == {"user", "tag"}


def test_ids_from_another_attribute_are_given() -> None:
    network = example().to_networkx()
    for k, key in enumerate(network):
        network.nodes[key]["name"] = f"n{k}"
    graph = MultiViewGraph.from_networkx(network, id="name")
    assert graph.given_ids == {"user", "tag", "image"}


@given(st.integers(0, 2**32 - 1))
def test_a_random_weighted_network_keeps_its_adjacency(seed) -> None:
    network = networkx.gnp_random_graph(7, 0.5, seed=seed)
    network.add_edge(0, 1)
    for k, (_, _, data) in enumerate(network.edges(data=True)):
        data["weight"] = 1.0 + k
    graph = MultiViewGraph.from_networkx(network)
    assert graph.view_names == ("node",)
    assert graph.ids["node"].tolist() == list(network)
    expected = networkx.to_numpy_array(network)
    assert np.array_equal(graph.links["node", "node"].matrix().toarray(), expected)


def test_edges_without_weight_count_one_and_parallel_edges_add_up() -> None:
    network = networkx.MultiGraph()
    network.add_edge("x", "y")
    network.add_edge("y", "x", weight=2.5)
    network.add_edge("y", "z")
    graph = MultiViewGraph.from_networkx(network)
    assert dense(graph) == {("node", "node"): [[0, 3.5, 0], [3.5, 0, 1], [0, 1, 0]]}
    assert graph.ids["node"].tolist() == ["x", "y", "z"]


def test_attributes_may_have_other_names() -> None:
    network = networkx.Graph()
    network.add_node(1, kind="item", vector=[1.0, 2.0], sku="p")
    network.add_node(2, kind="item", vector=[3.0, 4.0], sku="q")
    network.add_node(3, kind="shop", sku=30)
    network.add_edge(3, 1, n=5)
    graph = MultiViewGraph.from_networkx(
        network, view="kind", features="vector", id="sku", weight="n"
    )
    assert graph.views["item"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert graph.ids["item"].tolist() == ["p", "q"]
    assert graph.ids["shop"].tolist() == [30]
    assert graph.total_weight == 5


def bipartite() -> networkx.Graph:
    network = networkx.Graph()
    network.add_nodes_from(["a1", "a2"], view="a")
    network.add_nodes_from(["b1", "b2", "b3"], view="b")
    network.add_edge("a1", "b2", weight=2.0)
    network.add_edge("b3", "a2", weight=3.0)
    return network


def test_observed_pairs_default_to_those_with_an_edge() -> None:
    network = bipartite()
    assert dense(MultiViewGraph.from_networkx(network)) == {("a", "b"): [[0, 2, 0], [0, 0, 3]]}
    chosen = MultiViewGraph.from_networkx(network, pairs=[("b", "a"), ("a", "a")])
    assert dense(chosen) == {("b", "a"): [[0, 0], [2, 0], [0, 3]], ("a", "a"): [[0, 0], [0, 0]]}
    network.graph["pairs"] = [("b", "b"), ("a", "b")]
    assert list(MultiViewGraph.from_networkx(network).links) == [("a", "b"), ("b", "b")]


def test_integers_that_name_the_sides_of_a_bipartite_graph() -> None:
    network = networkx.davis_southern_women_graph()
    graph = MultiViewGraph.from_networkx(network, view="bipartite")
    assert dict(graph.sizes) == {"0": 18, "1": 14}
    order = [graph.ids[view].tolist() for view in ("0", "1")]
    assert order == [network.graph["top"], network.graph["bottom"]]
    wanted = networkx.bipartite.biadjacency_matrix(network, *order)
    np.testing.assert_array_equal(graph.links["0", "1"].matrix().toarray(), wanted.toarray())


@pytest.mark.parametrize(
    "node", [(0, 0), frozenset([1]), 0.5, None], ids=lambda node: type(node).__name__
)
def test_nodes_that_are_no_ids_name_the_fix(node) -> None:
    network = networkx.grid_2d_graph(3, 3)
    if not isinstance(node, tuple):
        network = networkx.Graph()
        network.add_node(0)
        network.add_nodes_from([1, 2], id=node)
        network.add_edge(1, 2)
    with pytest.raises(GraphError, match=r"from_networkx: view 'node': expected .*relabel_nodes"):
        MultiViewGraph.from_networkx(network)


def test_relabelled_nodes_are_ids() -> None:
    grid = networkx.grid_2d_graph(3, 3)
    graph = MultiViewGraph.from_networkx(networkx.relabel_nodes(grid, str))
    assert graph.ids["node"].tolist() == [str(node) for node in grid]
    with pytest.raises(GraphError, match=r"expected networkx\.Graph, got list"):
        MultiViewGraph.from_networkx([(0, 1)])


def test_a_directed_network_is_rejected() -> None:
    with pytest.raises(GraphError, match=r"from_networkx: expected an undirected.*to_undirected"):
        MultiViewGraph.from_networkx(networkx.DiGraph([(0, 1)]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: n.add_edge("a1", "a1"), r"\('a', 'a'\): .*linked to itself"),
        (lambda n: n.add_edge("a1", "b1", weight=-1), r"\('a', 'b'\): .*weights >= 0"),
        (lambda n: n.nodes["b1"].update(x=[1.0]), "view 'b': 2 of 3 nodes have no 'x'"),
        (lambda n: n.nodes["a1"].update(id=1), "view 'a': ids: .*got int, str"),
        (
            lambda n: n.nodes["a1"].update(view=2.5),
            r"node 'a1': 'view': expected a string or an integer, got 2\.5",
        ),
        (lambda n: n.nodes["a1"].update(view=""), "names must be non-empty strings, got ''"),
        (
            lambda n: (n.nodes["a1"].update(view=0), n.nodes["a2"].update(view="0")),
            "'view': expected all strings or all integers, got 0 and '0'",
        ),
        (lambda n: n.graph.update(pairs=[("a", "a")]), "got one between 'a' and 'b'"),
        (lambda n: n.graph.update(pairs=[("a", "b"), ("a", "c")]), "unknown view 'c'"),
        (
            lambda n: (n.nodes["a1"].update(x=[1.0]), n.nodes["a2"].update(x=[1.0, 2.0])),
            r"view 'a': expected rows of one shape, got \[\(1,\), \(2,\)\]",
        ),
    ],
)
def test_invalid_networks_are_rejected(change, message) -> None:
    network = bipartite()
    change(network)
    with pytest.raises(GraphError, match=message):
        MultiViewGraph.from_networkx(network)


@pytest.mark.parametrize("parameter", ["view", "features", "id", "weight"])
def test_attributes_that_nothing_has_are_an_error(parameter) -> None:
    network = networkx.les_miserables_graph()
    message = rf"^from_networkx: {parameter}: unknown attribute 'values'"
    with pytest.raises(GraphError, match=message):
        from_networkx(network, **{parameter: "values"})


def test_without_an_attribute() -> None:
    network = networkx.MultiGraph([("a", "b", {"weight": 5.0}), ("a", "b", {}), ("b", "c", {})])
    assert from_networkx(network).links["node", "node"].total == 7
    assert from_networkx(network, weight=None).links["node", "node"].total == 3
    davis = networkx.davis_southern_women_graph()
    assert from_networkx(davis, view="bipartite").sizes == {"0": 18, "1": 14}
    assert from_networkx(davis, view=None, features=None, id=None).sizes == {"node": 32}
