"""A subgraph has the selected rows and the links among them, like indexing a dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.errors import GraphError

N, M = 5, 4
WEIGHTS = st.sampled_from([0.0, 0.0, 1.0, 2.5])


def build(cross, within) -> MultiViewGraph:
    return MultiViewGraph(
        views={"a": np.arange(2.0 * N).reshape(N, 2), "b": sparse.csr_array(np.eye(M)), "c": 2},
        links={("b", "a"): cross, ("a", "a"): within, ("b", "c"): ([0], [1])},
        ids={"b": list("wxyz")},
    )


def positions(n: int):
    return st.lists(st.integers(0, n - 1), min_size=1, unique=True)


def masked(rows: list[int], n: int) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[rows] = True
    return mask


@given(
    arrays.arrays(float, (M, N), elements=WEIGHTS),
    arrays.arrays(float, (N, N), elements=WEIGHTS),
    positions(N),
    positions(M),
)
def test_subgraph_agrees_with_indexing_a_dense_matrix(cross, half, a, b) -> None:
    within = np.triu(half, 1) + np.triu(half, 1).T
    part = build(cross, within).subgraph({"a": a, "b": b})
    assert dict(part.sizes) == {"a": len(a), "b": len(b), "c": 2}
    assert np.array_equal(part.views["a"], np.arange(2.0 * N).reshape(N, 2)[a])
    assert np.array_equal(part.views["b"].toarray(), np.eye(M)[b])
    assert part.views["c"] is None
    assert part.ids["a"].tolist() == a
    assert part.ids["b"].tolist() == ["wxyz"[j] for j in b]
    assert np.array_equal(part.links["b", "a"].matrix().toarray(), cross[np.ix_(b, a)])
    assert np.array_equal(part.links["a", "a"].matrix().toarray(), within[np.ix_(a, a)])
    for links in part.links.values():
        keys = list(zip(links.rows.tolist(), links.cols.tolist(), strict=True))
        assert keys == sorted(set(keys))
        assert not links.within or all(i < j for i, j in keys)


@given(positions(N), positions(M))
def test_a_mask_keeps_the_rows_in_their_order(a, b) -> None:
    graph = build(np.ones((M, N)), np.ones((N, N)) - np.eye(N))
    by_mask = graph.subgraph({"a": masked(a, N), "b": masked(b, M).tolist()})
    by_position = graph.subgraph({"a": sorted(a), "b": np.sort(b).astype(np.uint8)})
    assert by_mask.ids["a"].tolist() == by_position.ids["a"].tolist() == sorted(a)
    for pair, links in by_mask.links.items():
        assert np.array_equal(links.matrix().toarray(), by_position.links[pair].matrix().toarray())


def test_views_that_are_not_named_are_kept_in_full() -> None:
    graph = build(np.ones((M, N)), ([0], [1]))
    part = graph.subgraph({"a": [1]})
    assert np.shares_memory(part.views["b"].data, graph.views["b"].data)
    assert part.ids["b"].tolist() == list("wxyz")
    assert part.links["b", "c"].matrix().toarray().tolist() == [[0, 1], [0, 0], [0, 0], [0, 0]]
    assert graph.subgraph({}).n_links == graph.n_links


def test_observed_pairs_stay_observed_without_a_link_left() -> None:
    part = build(np.eye(M, N), ([0], [1])).subgraph({"a": [4], "b": [3]})
    assert list(part.links) == [("a", "a"), ("b", "a"), ("b", "c")]
    assert part.n_links == 0
    assert [links.n_terms for links in part.links.values()] == [0, 1, 2]


def test_a_subgraph_of_a_subgraph() -> None:
    graph = build(np.arange(20.0).reshape(M, N), ([0], [1]))
    twice = graph.subgraph({"a": [4, 2, 0], "b": [3, 1]}).subgraph({"a": [2, 0]})
    assert twice.ids["a"].tolist() == [0, 4]
    assert twice.links["b", "a"].matrix().toarray().tolist() == [[15, 19], [5, 9]]


def test_derived_graphs_keep_tables() -> None:
    graph = build(np.ones((M, N)), ([0], [1]))
    described = graph.with_tables({"a": "note"})
    assert graph.tables is None
    assert repr(described) == repr(graph)
    assert [ids.tolist() for ids in described.ids.values()] == [
        x.tolist() for x in graph.ids.values()
    ]
    assert np.shares_memory(described.views["a"], graph.views["a"])
    for other in (described, described.subgraph({"a": [1]}), described.with_links(described.links)):
        assert other.tables == {"a": "note"}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([0], r"expected \{view: rows\}, got list"),
        ({"d": [0]}, "unknown view 'd': expected one of 'a', 'b', 'c'"),
        ({"a": [True, False]}, r"view 'a': expected a mask of 5 values, got shape \(2,\)"),
        (
            {"a": np.ones((5, 1), bool)},
            r"view 'a': expected a mask of 5 values, got shape \(5, 1\)",
        ),
        ({"a": np.zeros(5, bool)}, "view 'a': expected a non-empty list of positions, or a mask"),
        ({"a": []}, "view 'a': expected a non-empty list of positions, or a mask"),
        ({"a": 3}, "view 'a': expected a non-empty list of positions, or a mask"),
        ({"a": [0.0]}, "view 'a': expected a non-empty list of positions, or a mask"),
        ({"a": ["0"]}, "view 'a': expected a non-empty list of positions, or a mask"),
        ({"b": [1, 4]}, r"view 'b': positions must lie in 0\.\.3, got 1 to 4"),
        ({"b": [-1, 2]}, r"view 'b': positions must lie in 0\.\.3, got -1 to 2"),
        ({"b": [2, 1, 2]}, "view 'b': expected distinct positions, got 3 with repeats"),
    ],
)
def test_bad_rows_are_rejected(nodes, message) -> None:
    graph = build(np.ones((M, N)), ([0], [1]))
    with pytest.raises(GraphError, match=f"^subgraph: {message}"):
        graph.subgraph(nodes)
