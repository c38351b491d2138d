"""Held-out links and held-out entities are disjoint from the training part."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example as with_example
from hypothesis import given
from hypothesis import strategies as st

from pmvge import MultiViewGraph
from pmvge.errors import ParameterError
from pmvge.graph import hold_out_links, hold_out_nodes

FRACTIONS = st.floats(0.01, 0.99)
SEEDS = st.integers(0, 2**32 - 1)


def example(n_links: int = 20) -> MultiViewGraph:
    """Return a pair with ``n_links`` links, all pairs within a view, and a pair without links."""
    cell = np.arange(n_links)
    return MultiViewGraph(
        views={"a": np.arange(12.0).reshape(6, 2), "b": 8, "c": 1},
        links={
            ("a", "b"): (cell // 8, cell % 8, 1.0 + cell),
            ("b", "b"): np.add.outer(range(8), range(8)) * (1 - np.eye(8)),
            ("a", "c"): ([], []),
        },
        ids={"b": range(8)},
    )


def entries(graph: MultiViewGraph) -> dict:
    return {
        (pair, i, j): w
        for pair, links in graph.links.items()
        for i, j, w in zip(
            *(x.tolist() for x in (links.rows, links.cols, links.weights)), strict=True
        )
    }


@with_example(1, 0.9, 0)
@with_example(5, 0.99, 0)
@given(st.integers(1, 40), FRACTIONS, SEEDS)
def test_held_out_and_kept_links_partition_the_graph(n_links, fraction, seed) -> None:
    graph = example(n_links)
    kept, held = hold_out_links(graph, fraction, np.random.default_rng(seed))
    assert not entries(kept).keys() & entries(held).keys()
    assert entries(kept) | entries(held) == entries(graph)
    for pair, links in graph.links.items():
        wanted = abs(len(held.links[pair]) - fraction * len(links)) <= 0.5
        assert wanted or len(kept.links[pair]) == 1
        assert len(kept.links[pair]) >= min(1, len(links))
    for part in (kept, held):
        assert dict(part.sizes) == dict(graph.sizes)
        assert list(part.links) == list(graph.links)
        assert np.shares_memory(part.views["a"], graph.views["a"])


def test_every_link_is_equally_likely_to_be_held_out() -> None:
    graph, rng = example(), np.random.default_rng(0)
    count = np.zeros((6, 8))
    for _ in range(2000):
        count += hold_out_links(graph, 0.25, rng)[1].links["a", "b"].matrix().toarray() > 0
    count = count.ravel()[:20]
    assert count.sum() == 2000 * 5
    # Each is held out with probability 1/4: six standard deviations are 116.
    assert np.abs(count - 500).max() < 116


@given(st.integers(1, 300), SEEDS)
def test_the_held_out_links_are_the_first_of_a_permutation(n_links, seed) -> None:
    """Shuffling narrow integers gives the same order as a permutation of 64-bit ones."""
    cell = np.arange(n_links)
    graph = MultiViewGraph({"a": 30, "b": 10}, {("a", "b"): (cell // 10, cell % 10)})
    rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
    held = hold_out_links(graph, 0.3, rng)[1].links["a", "b"]
    expected = np.sort(again.permutation(n_links)[: min(round(0.3 * n_links), n_links - 1)])
    assert (held.rows * 10 + held.cols).tolist() == expected.tolist()
    assert rng.random() == again.random()


def test_links_of_one_weight_and_memory_maps_are_split_in_little_memory(tmp_path) -> None:
    n_links = 100_000
    cell = np.arange(n_links)
    for name, column in (("rows", cell // 400), ("cols", cell % 400)):
        np.save(tmp_path / name, column.astype(np.int32))
    rows, cols = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("rows", "cols"))
    graph = MultiViewGraph({"a": 250, "b": 400}, {("a", "b"): (rows, cols)})
    tracemalloc.start()
    try:
        kept, held = hold_out_links(graph, 0.25, np.random.default_rng(0))
        peak = tracemalloc.get_traced_memory()[1] / n_links
    finally:
        tracemalloc.stop()
    assert peak < 13  # 8 for the two parts, the rest for masks
    for part in (kept, held):
        assert part.links["a", "b"].equal_weights
    ends = [part.links["a", "b"] for part in (kept, held)]
    both = np.concatenate([part.rows * 400 + part.cols for part in ends])
    assert np.sort(both).tolist() == cell.tolist()


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5, float("nan")])
def test_fractions_outside_zero_and_one_are_rejected(fraction) -> None:
    with pytest.raises(
        ParameterError, match=rf"links to hold out: expected .* in \(0, 1\), got {fraction}"
    ):
        hold_out_links(example(), fraction, np.random.default_rng(0))


@given(FRACTIONS.filter(lambda f: 0.1 < f < 0.9), SEEDS)
def test_held_out_nodes_have_their_rows_and_the_links_among_them(fraction, seed) -> None:
    graph = example()
    split = hold_out_nodes(graph, {"a": fraction, "b": 0.5}, np.random.default_rng(seed))
    assert len(split.test_rows["a"]) == round(6 * fraction)
    assert len(split.test_rows["b"]) == 4
    for view, n in (("a", 6), ("b", 8)):
        assert sorted([*split.train_rows[view], *split.test_rows[view]]) == list(range(n))
    for part, rows in ((split.train, split.train_rows), (split.test, split.test_rows)):
        assert part.sizes["c"] == 1
        assert np.array_equal(part.views["a"], graph.views["a"][rows["a"]])
        assert part.ids["b"].tolist() == rows["b"].tolist() == sorted(rows["b"])
        for (a, b), links in part.links.items():
            full = graph.links[a, b].matrix().toarray()
            expected = full[np.ix_(rows.get(a, [0]), rows.get(b, [0]))]
            assert np.array_equal(links.matrix().toarray(), expected)


def test_the_parts_of_a_split_record_which_ids_were_given() -> None:
    rng = np.random.default_rng(0)
    split = hold_out_nodes(example(), {"a": 0.5, "b": 0.5}, rng)
    for part in (*hold_out_links(example(), 0.5, rng), split.train, split.test):
        assert part.given_ids == {"b"}


@pytest.mark.parametrize("fraction", [0, 0.01, 0.99, 1, -1, 2, float("nan")])
def test_a_split_that_leaves_one_side_empty_is_rejected(fraction) -> None:
    with pytest.raises(
        ParameterError, match=f"view 'a': holding out {fraction} of 6 entities leaves"
    ):
        hold_out_nodes(example(), {"a": fraction}, np.random.default_rng(0))


def test_an_unknown_view_cannot_be_split() -> None:
    with pytest.raises(ParameterError, match=r"unknown view 'd': expected one of 'a', 'b', 'c'"):
        hold_out_nodes(example(), {"d": 0.5}, np.random.default_rng(0))


def test_splits_depend_on_the_generator_and_not_on_the_order_of_keys() -> None:
    def held(seed, fractions):
        rng = np.random.default_rng(seed)
        rows = hold_out_nodes(example(), fractions, rng).test_rows
        return (
            rows["a"].tolist(),
            rows["b"].tolist(),
            entries(hold_out_links(example(), 0.5, rng)[1]),
        )

    assert held(1, {"a": 0.5, "b": 0.25}) == held(1, {"b": 0.25, "a": 0.5})
    assert held(1, {"a": 0.5, "b": 0.25}) != held(2, {"a": 0.5, "b": 0.25})
