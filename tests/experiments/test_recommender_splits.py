"""Splits of links: what is in training, and what is evaluated."""

import numpy as np
import pytest

from pmvge.datasets import LinkSplit
from pmvge.experiments.recommender.splits import (
    hold_out_candidates,
    hold_out_queries,
    hold_out_warm,
    magnn_split,
)
from pmvge.graph import Links, MultiViewGraph


@pytest.fixture
def graph() -> MultiViewGraph:
    rng = np.random.default_rng(0)
    W = rng.random((40, 30)) < np.linspace(0.05, 0.9, 40)[:, None]
    return MultiViewGraph(
        {"user": rng.normal(size=(40, 3)), "film": rng.normal(size=(30, 2))},
        {("user", "film"): W * 1.0},
        {"user": np.arange(40) + 100, "film": np.arange(30) + 500},
    )


def dense(links: Links) -> np.ndarray:
    return links.matrix().toarray()


def test_warm_links_are_in_one_part(graph) -> None:
    split = hold_out_warm(graph, 0.1, np.random.default_rng(1))
    train, truth = dense(split.train.links["user", "film"]), dense(split.truth)
    assert (train + truth == dense(graph.links["user", "film"])).all()
    assert truth.sum() == round(0.1 * graph.n_links)
    assert (dense(split.known) == train).all()
    assert not split.new


def test_unseen_films_are_not_in_training(graph) -> None:
    split = hold_out_candidates(graph, 0.2, np.random.default_rng(1))
    assert split.train.sizes == {"user": 40, "film": 24}
    unseen = np.setdiff1d(graph.ids["film"], split.train.ids["film"]) - 500
    assert (dense(split.truth) == dense(graph.links["user", "film"])[:, unseen]).all()
    assert (split.new["film"] == graph.views["film"][unseen]).all()


def test_unseen_users_have_first_and_later_links(graph) -> None:
    split = hold_out_queries(graph, 0.3, (1, 3, 10), np.random.default_rng(1))
    W = dense(graph.links["user", "film"])
    unseen = split.queries - 100
    assert not set(split.queries) & set(split.train.ids["user"])
    assert len(unseen) == 12
    assert (split.new["user"] == graph.views["user"][unseen]).all()
    assert (dense(split.truth) == W[unseen]).all()
    one, three, ten = (split.first[n].toarray() for n in (1, 3, 10))
    later, enough = dense(split.later), W[unseen].sum(axis=1) > 10
    assert 0 < enough.sum() < len(unseen)
    for n, first in ((1, one), (3, three), (10, ten)):
        assert (first.sum(axis=1) == n * enough).all()
    assert (one <= three).all()
    assert (three <= ten).all()
    assert (ten + later == W[unseen] * enough[:, None]).all()
    assert (dense(split.known) == ten).all()
    # The graph of a refit: links of training users, and first links.
    assert (split.rows == unseen).all()
    expected = W.copy()
    expected[unseen] = ten
    assert (dense(split.extended.links["user", "film"]) == expected).all()


def test_first_links_are_random(graph) -> None:
    columns = [
        hold_out_queries(graph, 0.3, (1,), np.random.default_rng(seed)).first[1].indices.mean()
        for seed in range(30)
    ]
    assert abs(np.mean(columns) - 14.5) < 2  # in the order of the links it would be near 0


def test_splits_depend_on_the_generator_only(graph) -> None:
    one, same, other = (
        hold_out_queries(graph, 0.3, (1,), np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert (one.first[1] != same.first[1]).nnz == 0
    assert not np.array_equal(one.queries, other.queries)


def test_negatives_are_pairs_without_a_link_in_any_part(graph) -> None:
    links = graph.links["user", "film"]
    part = np.random.default_rng(0).integers(3, size=len(links))
    parts = LinkSplit(*(links.select(part == k) for k in range(3)))
    found = [
        magnn_split(graph, parts, name, 3, ("user", "film")) for name in ("validation", "test")
    ]
    W, seen = dense(links), np.zeros((40, 30))
    for split, truth in zip(found, (parts.validation, parts.test), strict=True):
        assert (dense(split.train.links["user", "film"]) == dense(parts.train)).all()
        assert (dense(split.truth) == dense(truth)).all()
        rows, cols = split.negatives
        assert len(rows) == len(truth)
        assert (W[rows, cols] == 0).all()
        np.add.at(seen, (rows, cols), 1)
    assert seen.max() == 1  # without replacement, also between the parts


def test_negatives_are_uniform() -> None:
    """All free cells of a small table are drawn equally often."""
    W = np.zeros((4, 5))
    W[[0, 0, 1, 3, 3, 3], [0, 1, 3, 0, 3, 4]] = 1
    graph = MultiViewGraph({"user": 4, "film": 5}, {("user", "film"): W})
    links = graph.links["user", "film"]
    parts = LinkSplit(*(links.select(np.arange(6) % 3 == k) for k in range(3)))
    counts = np.zeros((4, 5))
    for seed in range(700):
        rows, cols = magnn_split(graph, parts, "test", seed, ("user", "film")).negatives
        np.add.at(counts, (rows, cols), 1)
    assert (counts[W > 0] == 0).all()
    free = counts[W == 0]  # 1,400 draws of 14 cells
    assert free.sum() == 1400
    assert abs(free - 100).max() < 45
