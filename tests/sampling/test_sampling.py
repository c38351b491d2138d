"""Samplers against exact enumeration, Monte Carlo with a stated error, and brute force."""

from __future__ import annotations

import itertools
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from pmvge import MultiViewGraph
from pmvge.errors import ParameterError
from pmvge.graph import canonical
from pmvge.sampling import BlockSampler, LinkBatch, PairSampler
from pmvge.sampling.block import RUN, _WeightedDraws
from pmvge.sampling.pairs import unrank


def z_hat(batch: LinkBatch, G: np.ndarray) -> float:
    """The estimate by the formula in LinkBatch's docstring, cell by cell."""
    masked = set(zip(*map(np.ndarray.tolist, batch.masked), strict=True))
    total = 0.0
    for s, i in enumerate(batch.left.entities):
        for t, j in enumerate(batch.right.entities):
            if (s, t) not in masked:
                weight = np.exp(float(batch.left.log_weight[s]) + float(batch.right.log_weight[t]))
                corner = batch.corner_weight if max(s, t) < batch.corner else 1.0
                total += np.exp(G[i, j]) * weight * corner
    return batch.factor * total


def exact_z(G: np.ndarray, within: bool) -> float:
    n, m = G.shape
    cells = ((i, j) for i in range(n) for j in range(m) if not within or i < j)
    return sum(np.exp(G[i, j]) for i, j in cells)


class Script:
    """A fake generator that returns prescribed numbers."""

    def __init__(self, *numbers: object) -> None:
        self.numbers = list(numbers)

    def integers(self, high: int, size: int) -> np.ndarray:
        return np.asarray(self.numbers.pop(0)).reshape(size)

    def random(self, size: int) -> np.ndarray:
        return np.asarray(self.numbers.pop(0)).reshape(size)


def expectation(graph: MultiViewGraph, G: np.ndarray, n_links: int, n_uniform: int) -> float:
    """E[Z-hat] by enumeration of all possible draws, with their probabilities."""
    ((_, links),) = graph.links.items()
    probability = links.weights / links.total
    middle = (np.cumsum(links.weights) - links.weights / 2) / links.total
    constant = len(set(links.weights)) == 1
    n, m = links.shape
    block = n_links + n_uniform
    uniform = [list(itertools.product(range(size), repeat=n_uniform)) for size in (n, m)]
    uniform = [u if size > block else [()] for u, size in zip(uniform, (n, m), strict=True)]
    flips = list(itertools.product([0.25, 0.75], repeat=n_links)) if links.within else [()]
    total = mass = 0.0
    for drawn in itertools.product(range(len(links)), repeat=n_links):
        for flip, left, right in itertools.product(flips, *uniform):
            script = [drawn if constant else middle[list(drawn)]]
            script += [part for part in (flip, left, right) if part]
            sampler = BlockSampler(graph, n_links=n_links, n_uniform=n_uniform, rng=Script(*script))
            p = np.prod(probability[list(drawn)]) / len(flips)
            p /= len(uniform[0]) * len(uniform[1])
            total += p * z_hat(next(iter(sampler)), G)
            mass += p
    assert mass == pytest.approx(1.0)
    return total


CASES = {
    "cross-view": ((5, 4), [(0, 1, 2.0), (3, 2, 1.0), (4, 0, 0.5)], False),
    "cross-view, equal weights": ((4, 5), [(0, 1, 1.0), (3, 2, 1.0), (0, 4, 1.0)], False),
    "all of the left view": ((2, 5), [(0, 1, 2.0), (1, 2, 1.0), (1, 4, 0.5)], False),
    "all of the right view": ((6, 3), [(0, 1, 2.0), (5, 2, 1.0), (1, 0, 0.5), (2, 0, 3.0)], False),
    "all of both views": ((3, 2), [(0, 1, 2.0), (1, 0, 1.0), (2, 0, 0.5)], False),
    "within a view": ((4, 4), [(0, 1, 2.0), (1, 3, 1.0), (2, 3, 0.5)], True),
    "all of one view, within": ((3, 3), [(0, 1, 2.0), (1, 2, 1.0), (0, 2, 0.5)], True),
}


def tiny(shape: tuple[int, int], links: list, within: bool) -> tuple[MultiViewGraph, np.ndarray]:
    rows, cols, weights = map(list, zip(*links, strict=True))
    views = {"a": shape[0]} if within else {"a": shape[0], "b": shape[1]}
    pair = ("a", "a") if within else ("a", "b")
    rng = np.random.default_rng(0)
    Y, Y_other = rng.normal(size=(shape[0], 3)), rng.normal(size=(shape[1], 3))
    G = 0.5 * Y @ (Y if within else Y_other).T
    return MultiViewGraph(views, {pair: (rows, cols, weights)}), G


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_block_estimate_is_unbiased_by_exact_enumeration(case):
    graph, G = tiny(*case)
    exact = exact_z(G, within=case[2])
    assert expectation(graph, G, n_links=2, n_uniform=1) == pytest.approx(exact, rel=2e-6)


@pytest.mark.parametrize(
    ("shape", "within"),
    [((60, 50), False), ((60, 10), False), ((60, 60), True)],
    ids=["cross-view", "all of one view", "within"],
)
def test_block_estimate_is_unbiased_by_monte_carlo(shape, within):
    rng = np.random.default_rng(3)
    W = np.triu(rng.poisson(0.1, shape) * rng.uniform(0.5, 2, shape), 1 if within else -99)
    links = [(i, j, W[i, j]) for i, j in zip(*np.nonzero(W), strict=True)]
    graph, G = tiny(shape, links, within)
    batches = iter(BlockSampler(graph, n_links=8, n_uniform=8, rng=rng))
    draws = np.array([z_hat(next(batches), G) for _ in range(1500)])
    error = draws.std() / np.sqrt(len(draws))
    exact = exact_z(G, within)
    assert error < 0.03 * exact
    assert abs(draws.mean() - exact) < 4 * error


def test_without_the_mask_the_estimate_is_biased():
    """Strongly linked pairs, with the cells of drawn links included."""
    rng = np.random.default_rng(0)
    links = [(i, i, 1.0) for i in range(40)]
    graph, _ = tiny((40, 40), links, within=False)
    G = 4.0 * np.eye(40)
    batches = iter(BlockSampler(graph, n_links=8, n_uniform=8, rng=rng))
    naive = []
    for _ in range(300):
        batch = next(batches)
        weight = np.exp(batch.left.log_weight[:, None] + batch.right.log_weight)
        naive.append((np.exp(G[np.ix_(batch.left.entities, batch.right.entities)]) * weight).sum())
    assert np.mean(naive) > 1.5 * exact_z(G, within=False)


def test_links_are_drawn_in_proportion_to_their_weights():
    links = [(0, 0, 1.0), (1, 2, 3.0), (9, 9, 6.0)]
    graph, _ = tiny((10, 10), links, within=False)
    batches = iter(BlockSampler(graph, n_links=3, n_uniform=2, rng=np.random.default_rng(0)))
    rows = np.concatenate([next(batches).left.entities[:3] for _ in range(3000)])
    share = np.array([(rows == i).mean() for i in (0, 1, 9)])
    assert share == pytest.approx([0.1, 0.3, 0.6], abs=0.02)


POINTS = st.lists(
    st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 1 - 2**-53])),
    min_size=1,
    max_size=20,
)


def many_weights(values: st.SearchStrategy) -> st.SearchStrategy:
    """Several runs, the last complete or not; equal weights except for a few."""
    sizes = st.sampled_from([1, 2, RUN - 1, RUN, RUN + 1, 2 * RUN, 3 * RUN + 1, 200])
    changes = st.lists(st.tuples(st.integers(0, 199), values), max_size=20)
    return st.builds(changed, sizes, values, changes)


def changed(size: int, value: float, changes: list[tuple[int, float]]) -> np.ndarray:
    weights = np.full(size, value)
    for position, other in changes:
        weights[position % size] = other
    return weights


@given(many_weights(st.integers(1, 10**6).map(float)), POINTS)
def test_weighted_draws_equal_a_linear_search(weights, points):
    """Sums of integers are exact, so that both agree for every point."""
    drawn = _WeightedDraws(weights).draw(len(points), Script(points))
    for u, link in zip(points, drawn.tolist(), strict=True):
        point = min(u * weights.sum(), np.nextafter(weights.sum(), 0))
        assert link == next(k for k in range(len(weights)) if weights[: k + 1].sum() > point)


# In these examples the two sums of a run are rounded differently.
@example(np.array([1126.4, *[1.1] * 30]), [1 - 2**-53])
@example(np.array([1126.4, *[1.1] * 30]) * 2.0**-20, [1 - 2**-53])
@given(many_weights(st.integers(-40, 40).map(lambda k: 2.0**k * 1.1)), POINTS)
def test_weighted_draws_with_weights_of_any_size(weights, points):
    total = math.fsum(weights)
    drawn = _WeightedDraws(weights).draw(len(points), Script(points))
    for u, link in zip(points, drawn.tolist(), strict=True):
        assert 0 <= link < len(weights)
        assert math.fsum(weights[:link]) <= (u + 1e-13) * total
        assert math.fsum(weights[: link + 1]) >= (u - 1e-13) * total


def test_a_point_that_rounds_up_to_the_total_draws_the_last_link():
    weights = 5e-324 * np.array([1.0, 2.0])
    assert 0.9 * weights.sum() == weights.sum()
    assert _WeightedDraws(weights).draw(2, Script([0.9, 0.1])).tolist() == [1, 0]


@pytest.mark.parametrize("size", [1, RUN - 1, RUN, RUN + 1, 200])
@pytest.mark.parametrize("position", [0, -1, 37])
def test_links_without_weight_are_never_drawn(size, position):
    weights = np.zeros(size)
    weights[position % size] = 0.3
    points = [0.0, 1e-300, 0.5, 1 - 2**-53]
    drawn = _WeightedDraws(weights).draw(4, Script(points))
    assert drawn.tolist() == [position % size] * 4


@pytest.mark.parametrize("within", [False, True])
def test_links_of_many_runs_are_drawn_in_proportion_to_their_weights(within):
    """A chi-square test of 200,000 draws of 1,000 links, weights from about 1/30 to 30."""
    rng = np.random.default_rng(4)
    cells = np.column_stack(np.triu_indices(60, 1))[rng.permutation(1770)[:1000]]
    weights = np.exp(rng.normal(size=1000))
    graph, _ = tiny((60, 60), [(*cell, w) for cell, w in zip(cells, weights, strict=True)], within)
    ((_, links),) = graph.links.items()
    batches = iter(BlockSampler(graph, n_links=20, n_uniform=2, rng=rng))
    counts = np.zeros((60, 60))
    for _ in range(10_000):
        batch = next(batches)
        i, j = batch.left.entities[:20], batch.right.entities[:20]
        np.add.at(counts, (np.minimum(i, j), np.maximum(i, j)) if within else (i, j), 1)
    seen = counts[links.rows, links.cols]
    assert seen.sum() == 200_000  # no other pair was drawn
    assert stats.chisquare(seen, 200_000 * links.weights / links.total).pvalue > 0.001


def test_memory_maps_and_equal_weights_give_the_same_draws(tmp_path):
    cell = np.arange(0, 10_000, 7)
    for name, column in (("rows", cell // 100), ("cols", cell % 100)):
        np.save(tmp_path / name, column.astype(np.int32))
    rows, cols = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("rows", "cols"))
    batches = []
    for links in ((rows, cols), (cell // 100, cell % 100, np.full(len(cell), 1.0))):
        graph = MultiViewGraph({"a": 100, "b": 100}, {("a", "b"): links})
        sampler = BlockSampler(graph, n_links=8, n_uniform=8, rng=np.random.default_rng(0))
        batches.append(next(iter(sampler)))
    one, other = batches
    assert one.left.entities.tolist() == other.left.entities.tolist()
    assert one.left.log_weight.tolist() == other.left.log_weight.tolist()
    assert one.link_weights is None
    drawn = one.left.entities[:8] * 100 + one.right.entities[:8]
    assert (drawn % 7 == 0).all()


def test_small_views_and_their_links_are_taken_completely():
    graph, _ = tiny(*CASES["all of both views"])
    sampler = BlockSampler(graph, n_links=3, n_uniform=1, rng=np.random.default_rng(0))
    batch = next(iter(sampler))
    ends = {
        (batch.left.entities[i], batch.right.entities[j], w)
        for i, j, w in zip(
            batch.left.links, batch.right.links, (batch.link_weights * 3.5).tolist(), strict=True
        )
    }
    assert ends == {(0, 1, 2.0), (1, 0, 1.0), (2, 0, 0.5)}


def test_pairs_are_drawn_in_proportion_to_their_weight_and_zero_pairs_never():
    graph = MultiViewGraph(
        {"a": 5, "b": 5, "c": 5},
        {
            ("a", "b"): ([0], [0], [1.0]),
            ("b", "b"): ([0], [1], [4.0]),
            ("b", "c"): ([0], [0], [3.0]),
            ("a", "c"): np.zeros((5, 5)),
        },
    )
    batches = iter(BlockSampler(graph, n_links=2, n_uniform=1, rng=np.random.default_rng(0)))
    pairs = [next(batches).pair for _ in range(2000)]
    assert ("a", "c") not in pairs
    assert pairs.count(("b", "b")) / len(pairs) == pytest.approx(0.5, abs=0.04)
    assert pairs.count(("b", "c")) / len(pairs) == pytest.approx(0.375, abs=0.04)


def test_within_a_view_each_link_is_oriented_at_random():
    graph, _ = tiny((60, 60), [(i, i + 30, 1.0) for i in range(30)], within=True)
    batch = next(iter(BlockSampler(graph, n_links=25, n_uniform=9, rng=np.random.default_rng(0))))
    flipped = batch.left.entities[:25] > batch.right.entities[:25]
    assert 5 < flipped.sum() < 20


def test_a_view_that_is_taken_completely_is_encoded_once():
    graph, _ = tiny((6, 6), [(0, 1, 1.0)], within=True)
    batch = next(iter(BlockSampler(graph, n_links=4, n_uniform=4, rng=np.random.default_rng(0))))
    assert batch.shared is True
    assert [entities.tolist() for _, entities in batch.inputs] == [[0, 1, 2, 3, 4, 5]]
    assert batch.left.log_weight.dtype == np.float32
    graph, _ = tiny((6, 6), [(0, 1, 1.0), (2, 3, 2.0)], within=True)
    batch = next(iter(BlockSampler(graph, n_links=4, n_uniform=4, rng=np.random.default_rng(0))))
    assert batch.link_weights.dtype == np.float32
    batch = next(iter(BlockSampler(graph, n_links=2, n_uniform=2, rng=np.random.default_rng(0))))
    assert batch.shared is False
    assert batch.left.log_weight.dtype == np.float32


def test_both_of_two_view_pairs_are_drawn():
    graph, _ = two_pairs()
    batches = iter(BlockSampler(graph, n_links=2, n_uniform=1, rng=np.random.default_rng(0)))
    assert {next(batches).pair for _ in range(100)} == set(graph.links)


def test_within_a_view_pairs_of_an_entity_with_itself_are_masked():
    graph, _ = tiny((6, 6), [(0, i, 1.0) for i in range(1, 6)], within=True)
    batches = iter(BlockSampler(graph, n_links=2, n_uniform=2, rng=np.random.default_rng(0)))
    for _ in range(50):
        batch = next(batches)
        masked = set(zip(*map(np.ndarray.tolist, batch.masked), strict=True))
        same = np.argwhere(batch.left.entities[:, None] == batch.right.entities).tolist()
        assert {(s, s) for s in range(2)} | set(map(tuple, same)) == masked


def test_batches_are_immutable():
    graph, _ = tiny(*CASES["cross-view"])
    batch = next(iter(BlockSampler(graph, n_links=2, n_uniform=1, rng=np.random.default_rng(0))))
    with pytest.raises(FrozenInstanceError):
        batch.corner = 3
    pairs = next(iter(PairSampler(graph, m=4, r=1, tau=None, rng=np.random.default_rng(0))))
    with pytest.raises(FrozenInstanceError):
        pairs.tau = 0.0


# -- the paper's pairs ----------------------------------------------------------------------


def two_pairs() -> tuple[MultiViewGraph, dict]:
    rng = np.random.default_rng(1)
    graph = MultiViewGraph(
        {"a": 6, "b": 4},
        {
            ("a", "b"): ([0, 1, 5], [1, 2, 3], [2.0, 1.0, 4.0]),
            ("a", "a"): ([0, 2], [1, 4], [1.0, 3.0]),
        },
    )
    Y = {view: rng.normal(size=(n, 3)) for view, n in graph.sizes.items()}
    return graph, Y


def test_pair_objective_has_the_likelihood_as_its_expectation():
    """By enumeration of all links and terms, with the sampler's default tau = |I| / (r |W|)."""
    graph, Y = two_pairs()
    alpha = {("a", "a"): 0.3, ("a", "b"): 0.7}
    likelihood = first = second = 0.0
    for (d, e), links in graph.links.items():
        W = links.matrix().toarray()
        for i, j in itertools.product(*map(range, links.shape)):
            if d != e or i < j:
                mu = alpha[d, e] * np.exp(Y[d][i] @ Y[e][j])
                likelihood += W[i, j] * np.log(mu) - mu
                first += W[i, j] * np.log(mu)
                second += mu
    sampler = PairSampler(graph, m=9, r=2.0, tau=None, rng=np.random.default_rng(0))
    # A uniform draw from a set of size s has the set's mean: sum / s.
    expected = sampler.n_links * first / graph.n_links
    expected -= sampler.tau * sampler.n_uniform * second / graph.n_terms
    assert (sampler.n_links, sampler.n_uniform) == (3, 6)
    assert expected == pytest.approx(sampler.n_links / graph.n_links * likelihood)

    batches = iter(sampler)
    draws = []
    for _ in range(4000):
        batch = next(batches)
        value = 0.0
        for (d, e), (rows, cols, w) in batch.links.items():
            g = (Y[d][rows] * Y[e][cols]).sum(1)
            value += (w * (g + np.log(alpha[d, e]))).sum()
        for (d, e), (rows, cols) in batch.uniform.items():
            value -= batch.tau * alpha[d, e] * np.exp((Y[d][rows] * Y[e][cols]).sum(1)).sum()
        draws.append(value)
    error = np.std(draws) / np.sqrt(len(draws))
    assert error < 0.05 * abs(expected)
    assert abs(np.mean(draws) - expected) < 4 * error


def test_every_term_is_drawn_equally_often():
    graph, _ = two_pairs()
    batches = iter(PairSampler(graph, m=400, r=1.0, tau=1.0, rng=np.random.default_rng(0)))
    counts: dict = {}
    for _ in range(200):
        for pair, (rows, cols) in next(batches).uniform.items():
            for key in zip(rows.tolist(), cols.tolist(), strict=True):
                counts[pair, key] = counts.get((pair, key), 0) + 1
    assert len(counts) == graph.n_terms == 6 * 4 + 15
    assert sum(counts.values()) == 200 * 200
    share = np.array(list(counts.values())) / (200 * 200)
    assert share == pytest.approx(1 / 39, rel=0.15)


@given(st.integers(2, 10**9), st.data())
def test_unrank_inverts_the_numbering_of_unordered_pairs(n, data):
    j = data.draw(st.integers(1, n - 1))
    i = data.draw(st.integers(0, j - 1))
    links = canonical(*(np.empty(0, np.int64),) * 3, (n, n), True)
    rows, cols = unrank(np.array([j * (j - 1) // 2 + i]), links)
    assert (rows[0], cols[0]) == (i, j)


@pytest.mark.parametrize("j", [2, 3, 1000, 2**27 + 1, 2**29, 2**30 - 1, 2**31 - 1])
def test_unrank_is_exact_where_float64_is_not(j):
    """At the first and last i of a j, up to numbers near 2^61."""
    links = canonical(*(np.empty(0, np.int64),) * 3, (2**31, 2**31), True)
    first = j * (j - 1) // 2
    rows, cols = unrank(np.array([first - 1, first, first + 1, first + j - 1, first + j]), links)
    assert rows.tolist() == [j - 2, 0, 1, j - 1, 0]
    assert cols.tolist() == [j - 1, j, j, j, j + 1]


def test_a_batch_may_have_a_single_link_and_a_single_pair():
    graph, _ = two_pairs()
    sampler = PairSampler(graph, m=2, r=1.0, tau=None, rng=np.random.default_rng(0))
    batch = next(iter(sampler))
    ((rows, cols, weights),) = batch.links.values()
    assert len(rows) == len(cols) == len(weights) == sampler.n_links == sampler.n_uniform == 1
    assert weights.dtype == np.float32


@pytest.mark.parametrize(("m", "r"), [(4, 1e9), (4, 1e-9)])
def test_a_batch_without_links_or_without_pairs_is_refused(m, r):
    graph, _ = two_pairs()
    with pytest.raises(ParameterError, match="batch_size=4 with negative_rate"):
        PairSampler(graph, m=m, r=r, tau=None, rng=np.random.default_rng(0))
