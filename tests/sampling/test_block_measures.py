"""Blocks estimate any sum over entity pairs and over links: all possible draws, enumerated.

The terms of entity pairs are random numbers: an estimate that is right for them is right for every
function of the similarity. Draws are made in proportion to weights, or uniformly over links.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pmvge import MultiViewGraph
from pmvge.sampling import BlockSampler, LinkBatch, with_measure

CASES = {
    "cross-view": ((5, 4), [(0, 1, 2.0), (3, 2, 1.0), (4, 0, 90.0)], False),
    "cross-view, equal weights": ((4, 5), [(0, 1, 3.0), (3, 2, 3.0), (0, 4, 3.0)], False),
    "all of the left view": ((2, 5), [(0, 1, 2.0), (1, 2, 1.0), (1, 4, 0.5)], False),
    "all of the right view": ((6, 3), [(0, 1, 2.0), (5, 2, 1.0), (1, 0, 0.5), (2, 0, 30.0)], False),
    "all of both views": ((3, 2), [(0, 1, 2.0), (1, 0, 1.0), (2, 0, 0.5)], False),
    "all of both views and all links": ((3, 2), [(0, 1, 2.0), (2, 0, 0.5)], False),
    "within a view": ((4, 4), [(0, 1, 2.0), (1, 3, 40.0), (2, 3, 0.5)], True),
    "all of one view, within": ((3, 3), [(0, 1, 2.0), (1, 2, 1.0), (0, 2, 0.5)], True),
    "all of one view and all links, within": ((3, 3), [(0, 1, 2.0), (1, 2, 1.0)], True),
}
B, U = 2, 1  # links, and uniform entities a side
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
measures = pytest.mark.parametrize("measure", ["weight", "uniform"])


class Script:
    """A generator that returns prescribed numbers."""

    def __init__(self, *numbers) -> None:
        self.numbers = list(numbers)

    def integers(self, high: int, size: int) -> np.ndarray:
        return np.asarray(self.numbers.pop(0)).reshape(size)

    def random(self, size: int) -> np.ndarray:
        return np.asarray(self.numbers.pop(0)).reshape(size)


def tiny(shape, links, within):
    rows, cols, weights = map(list, zip(*links, strict=True))
    views = {"a": shape[0]} if within else {"a": shape[0], "b": shape[1]}
    pair = ("a", "a") if within else ("a", "b")
    return MultiViewGraph(views, {pair: (rows, cols, weights)})


def random_terms(shape, within, seed=0):
    h = np.random.default_rng(seed).normal(size=shape)
    return h + h.T if within else h


def all_draws(graph, measure):
    """Yield every possible batch with its probability."""
    ((_, links),) = graph.links.items()
    m = links.weights if measure == "weight" else np.ones(len(links))
    middle = (np.cumsum(m) - m / 2) / m.sum()
    complete = [size <= B + U for size in links.shape]
    if all(complete) and len(links) <= B:
        sampler = BlockSampler(graph, n_links=B, n_uniform=U, rng=Script(), measure=measure)
        yield 1.0, next(iter(sampler))
        return
    uniform = [
        [()] if whole else list(itertools.product(range(size), repeat=U))
        for size, whole in zip(links.shape, complete, strict=True)
    ]
    flips = list(itertools.product([0.25, 0.75], repeat=B)) if links.within else [()]
    for drawn in itertools.product(range(len(links)), repeat=B):
        for flip, left, right in itertools.product(flips, *uniform):
            numbers = [drawn if len(set(m)) == 1 else middle[list(drawn)]]
            numbers += [part for part in (flip, left, right) if part]
            sampler = BlockSampler(
                graph, n_links=B, n_uniform=U, rng=Script(*numbers), measure=measure
            )
            p = np.prod(m[list(drawn)] / m.sum()) / len(flips) / len(uniform[0]) / len(uniform[1])
            yield p, next(iter(sampler))


def over_pairs(batch: LinkBatch, h: np.ndarray) -> float:
    """The estimate by the formula in LinkBatch's docstring, cell by cell."""
    masked = set(zip(*map(np.ndarray.tolist, batch.masked), strict=True))
    total = 0.0
    for s, i in enumerate(batch.left.entities):
        for t, j in enumerate(batch.right.entities):
            if (s, t) not in masked:
                weight = np.exp(float(batch.left.log_weight[s]) + float(batch.right.log_weight[t]))
                total += h[i, j] * weight * (
                    batch.corner_weight if max(s, t) < batch.corner else 1.0
                )  # fmt: skip
    return batch.factor * total


def over_links(batch: LinkBatch, f: np.ndarray) -> float:
    """The estimate of the sum over links of f(i, j) w**2, per unit of measure."""
    i, j = batch.left.entities[batch.left.links], batch.right.entities[batch.right.links]
    return sum(batch.link_counts * f[i, j] * batch.weights**2)


@cases
@measures
def test_the_sum_over_pairs_is_unbiased(case, measure):
    graph, h = tiny(*case), random_terms(case[0], case[2])
    draws = list(all_draws(graph, measure))
    assert sum(p for p, _ in draws) == pytest.approx(1)
    n, m = case[0]
    exact = sum(h[i, j] for i in range(n) for j in range(m) if not case[2] or i < j)
    expected = sum(p * over_pairs(batch, h) for p, batch in draws)
    assert expected == pytest.approx(exact, rel=2e-6)


@cases
@measures
def test_the_sum_over_links_is_unbiased(case, measure):
    graph, f = tiny(*case), random_terms(case[0], case[2], seed=1)
    total = sum(w if measure == "weight" else 1 for _, _, w in case[1])
    exact = sum(f[i, j] * w**2 for i, j, w in case[1]) / total
    draws = list(all_draws(graph, measure))
    assert all(batch.total == pytest.approx(total) for _, batch in draws)
    assert sum(p * over_links(batch, f) for p, batch in draws) == pytest.approx(exact, rel=2e-6)


@measures
def test_view_pairs_are_drawn_in_proportion_to_their_measure(measure):
    graph = MultiViewGraph(
        {"a": 9, "b": 9},
        {("a", "b"): ([0], [0], [6.0]), ("a", "a"): ([0, 1, 2], [3, 4, 5], [1.0, 0.5, 0.5])},
    )
    rng = np.random.default_rng(0)
    batches = iter(BlockSampler(graph, n_links=2, n_uniform=1, rng=rng, measure=measure))
    drawn = [next(batches).pair for _ in range(2000)].count(("a", "b")) / 2000
    assert drawn == pytest.approx(0.75 if measure == "weight" else 0.25, abs=0.03)


def test_uniform_links_keep_their_weights():
    graph = tiny((9, 9), [(n, n, n + 1.0) for n in range(8)], within=False)
    sampler = BlockSampler(
        graph, n_links=4, n_uniform=2, rng=np.random.default_rng(0), measure="uniform"
    )
    batch = next(iter(sampler))
    assert batch.link_weights is None
    assert batch.total == 8
    np.testing.assert_array_equal(batch.weights, batch.left.entities[:4] + 1.0)
    np.testing.assert_allclose(batch.link_counts, 1 / 4)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_uniform_measure_of_links_is_their_number(n):
    graph = MultiViewGraph({"a": 5, "b": 5}, {("a", "b"): (range(4), range(4), [2.0] * 4)})
    links = graph.links["a", "b"].select(np.arange(n))
    assert with_measure(links, "uniform").total == n
    assert with_measure(links, "uniform").equal_weights
    assert with_measure(links, "weight") is links
