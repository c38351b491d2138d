"""The exact likelihood, compared with a double loop in Python; estimates of log Z."""

from __future__ import annotations

import math
import statistics
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from pmvge import MultiViewGraph
from pmvge.likelihoods import (
    exact,
    graph_log_partitions,
    intensity,
    log_alpha_hat,
    log_likelihood,
    log_partition,
    partition,
    poisson,
    profile_log_likelihood,
)
from pmvge.likelihoods.partition import estimate_log_partition
from pmvge.likelihoods.terms import link_similarity
from pmvge.sampling import BlockSampler

ALPHA = {("a", "a"): 0.3, ("a", "b"): 0.7, ("b", "c"): 1.9}


def graph_and_embeddings(seed: int, scale: float = 1.0) -> tuple[MultiViewGraph, dict]:
    rng = np.random.default_rng(seed)
    sizes = {"a": 7, "b": 5, "c": 3}
    links = {
        ("a", "b"): rng.poisson(0.5, (7, 5)) * rng.uniform(0.1, 3, (7, 5)),
        ("a", "a"): np.triu(rng.poisson(0.5, (7, 7)) * rng.uniform(0.1, 3, (7, 7)), 1),
        ("b", "c"): rng.poisson(0.8, (5, 3)).astype(float) + np.eye(5, 3),
    }
    Y = {view: scale * rng.normal(size=(n, 4)) for view, n in sizes.items()}
    return MultiViewGraph(sizes, links), Y


def terms(graph: MultiViewGraph, Y: dict):
    """Every pair term of I_n: (pair, w_ij, g_ij)."""
    for (d, e), links in graph.links.items():
        W = links.matrix().toarray()
        for i in range(links.shape[0]):
            for j in range(links.shape[1]):
                if d != e or i < j:
                    yield (d, e), W[i, j], sum(a * b for a, b in zip(Y[d][i], Y[e][j], strict=True))


def logs(alpha: dict) -> dict:
    return {pair: math.log(value) for pair, value in alpha.items()}


def brute_force(graph: MultiViewGraph, Y: dict, alpha: dict) -> dict:
    values = dict.fromkeys(graph.links, 0.0)
    for pair, w, g in terms(graph, Y):
        mu = alpha[pair] * math.exp(g)
        values[pair] += float(xlogy(w, mu)) - mu  # 0 without links, where alpha is 0
    return values


@given(st.integers(0, 10**6), st.floats(0.01, 2.0))
@settings(max_examples=30, deadline=None)
def test_log_likelihood_is_the_double_loop(seed, scale):
    graph, Y = graph_and_embeddings(seed, scale)
    assert log_likelihood(graph, Y, logs(ALPHA)) == pytest.approx(
        brute_force(graph, Y, ALPHA), rel=1e-10
    )


@given(st.integers(0, 10**6))
@example(10749)
@settings(max_examples=30, deadline=None)
def test_alpha_hat_solves_the_estimating_equation(seed):
    graph, Y = graph_and_embeddings(seed)
    found = {
        pair: math.exp(log_alpha_hat(graph.links[pair].total, log_Z.value))
        for pair, log_Z in graph_log_partitions(graph, Y, rng=np.random.default_rng(0)).items()
    }
    weight, mass = dict.fromkeys(found, 0.0), dict.fromkeys(found, 0.0)
    for pair, w, g in terms(graph, Y):
        weight[pair] += w
        mass[pair] += math.exp(g)
    assert found == pytest.approx({p: weight[p] / mass[p] for p in found}, rel=1e-10)

    # The profile likelihood is the likelihood at that alpha, and no other alpha is better.
    profile = profile_log_likelihood(graph, Y)
    assert profile == pytest.approx(brute_force(graph, Y, found), rel=1e-10)
    for factor in (0.9, 1.1):
        elsewhere = brute_force(graph, Y, {pair: factor * a for pair, a in found.items()})
        assert all(elsewhere[pair] < profile[pair] for pair in profile if found[pair])


@pytest.mark.parametrize("tile", [1, 2, 3, 100])
def test_tiles_of_any_size_give_the_same_partition(tile):
    graph, Y = graph_and_embeddings(0)
    exact = dict.fromkeys(graph.links, 0.0)
    for pair, _, g in terms(graph, Y):
        exact[pair] += math.exp(g)
    for (d, e), value in exact.items():
        found = log_partition(Y[d], None if d == e else Y[e], tile=tile)
        assert found == pytest.approx(math.log(value), rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 8, 9])
def test_incomplete_tiles_are_summed(n, scale):
    """Less than a tile of 4 entities, one or two tiles, and one entity more; small and large g."""
    rng = np.random.default_rng(n)
    Y, Y_other = (scale * rng.normal(size=(size, 3)).astype(np.float32) for size in (n, 6))
    g = [[sum(float(a) * float(b) for a, b in zip(y, z, strict=True)) for z in Y_other] for y in Y]
    largest = max(map(max, g))
    across = largest + math.log(sum(math.exp(v - largest) for row in g for v in row))
    assert log_partition(Y, Y_other, tile=4) == pytest.approx(across, rel=1e-12)
    if n == 1:
        assert log_partition(Y, tile=4) == -math.inf  # no pairs
        return
    g = [sum(float(a) * float(b) for a, b in zip(Y[i], Y[j], strict=True))
         for i in range(n) for j in range(i + 1, n)]  # fmt: skip
    within = max(g) + math.log(sum(math.exp(v - max(g)) for v in g))
    assert log_partition(Y, tile=4) == pytest.approx(within, rel=1e-12)


def test_no_float64_copy_of_all_vectors_is_made(tmp_path):
    """64 MB of a memory map need no more memory than a tile."""
    path = tmp_path / "Y.npy"
    np.save(path, np.random.default_rng(0).normal(size=(250_000, 64)).astype(np.float32))
    Y, few = np.load(path, mmap_mode="r"), np.ones((3, 64), np.float32)
    tracemalloc.start()
    log_partition(few, Y)
    log_partition(Y, few)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6


def test_links_are_summed_in_chunks():
    graph, Y = graph_and_embeddings(0)
    expected = sum(w * g for pair, w, g in terms(graph, Y) if pair == ("a", "b"))
    found = link_similarity(graph.links["a", "b"], Y["a"], Y["b"], chunk=2)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shift", [-800.0, 0.0, 800.0, 1e6])
def test_extreme_similarities_neither_overflow_nor_underflow(shift):
    """A common component shifts all g, and so log Z, by the same number."""
    rng = np.random.default_rng(0)
    Y, Y_other = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    plain = log_partition(Y, Y_other)
    far = np.hstack([Y, np.full((5, 1), shift)])
    assert log_partition(far, np.hstack([Y_other, np.ones((4, 1))])) == pytest.approx(
        plain + shift, rel=1e-10
    )


def test_a_missing_pair_is_not_a_pair_of_zeros():
    """At the same alpha, a pair observed as all zero adds a term; a missing pair does not."""
    graph, Y = graph_and_embeddings(0)
    alpha = ALPHA | {("a", "c"): 0.4}
    zeros = MultiViewGraph(
        dict(graph.sizes),
        {pair: links.matrix() for pair, links in graph.links.items()}
        | {("a", "c"): np.zeros((7, 3))},
    )
    missing, observed = (log_likelihood(g, Y, logs(alpha)) for g in (graph, zeros))
    assert ("a", "c") not in missing
    expected = -0.4 * sum(math.exp(g) for pair, _, g in terms(zeros, Y) if pair == ("a", "c"))
    assert observed["a", "c"] == pytest.approx(expected, rel=1e-10)
    assert sum(observed.values()) < sum(missing.values())
    # Its own alpha-hat is 0, where the term is 0.
    assert log_alpha_hat(0.0, 3.0) == -math.inf
    assert profile_log_likelihood(zeros, Y)["a", "c"] == 0.0


def test_zero_alpha_makes_links_impossible():
    graph, Y = graph_and_embeddings(0)
    values = log_likelihood(graph, Y, dict.fromkeys(ALPHA, -math.inf))
    assert set(values.values()) == {-math.inf}


def test_zero_alpha_gives_zero_without_links():
    graph = MultiViewGraph({"a": 2, "b": 1}, {("a", "b"): ([0], [0], [0.5])})
    Y = {"a": np.ones((2, 1)), "b": np.ones((1, 1))}
    empty = graph.subgraph({"a": [1]})
    log_zero = {("a", "b"): -math.inf}
    assert log_likelihood(empty, {**Y, "a": Y["a"][:1]}, log_zero) == {("a", "b"): 0.0}
    assert log_likelihood(graph, Y, log_zero) == {("a", "b"): -math.inf}


def test_weights_below_one():
    """Two pairs with g = 1, one of them linked with weight 1/2."""
    graph = MultiViewGraph({"a": 2, "b": 1}, {("a", "b"): ([0], [0], [0.5])})
    Y = {"a": np.ones((2, 1)), "b": np.ones((1, 1))}
    log_Z = math.log(2) + 1
    assert log_alpha_hat(0.5, log_Z) == pytest.approx(math.log(0.5) - log_Z)
    best = 0.5 - 0.5 * log_Z + 0.5 * math.log(0.5) - 0.5
    assert profile_log_likelihood(graph, Y)["a", "b"] == pytest.approx(best, rel=1e-12)


def test_an_overflowing_alpha_gives_no_warning():
    graph, Y = graph_and_embeddings(0)
    assert set(log_likelihood(graph, Y, dict.fromkeys(ALPHA, 800.0)).values()) == {-math.inf}


def test_intensity_is_alpha_times_exp():
    _, Y = graph_and_embeddings(0)
    mu = intensity(Y["a"], Y["b"], math.log(0.7))
    assert mu[3, 2] == pytest.approx(0.7 * math.exp(Y["a"][3] @ Y["b"][2]), rel=1e-12)
    assert intensity(1e3 * Y["a"], 1e3 * Y["b"], 0.0).max() == math.inf  # without a warning
    assert not intensity(Y["a"], Y["b"], -math.inf).any()


@pytest.mark.parametrize("pair", [("a", "b"), ("a", "a")])
def test_the_estimate_agrees_with_the_exact_sum_within_its_error(pair):
    rng = np.random.default_rng(0)
    views = {"a": 400, "b": 300}
    n, m = views[pair[0]], views[pair[1]]
    W = np.triu(rng.poisson(0.02, (n, m)), 1)
    graph = MultiViewGraph(views, {pair: W})
    Y = {view: 0.7 * rng.normal(size=(size, 4)) for view, size in views.items()}
    sampler = BlockSampler(graph, n_links=50, n_uniform=50, rng=rng)
    found = estimate_log_partition(Y[pair[0]], Y[pair[1]], sampler, blocks=300)
    exact = log_partition(Y[pair[0]], None if pair[0] == pair[1] else Y[pair[1]])
    assert not found.exact
    assert 0 < found.standard_error < 0.05
    assert abs(found.value - exact) < 4 * found.standard_error


def test_the_standard_error_is_that_of_a_mean_of_blocks():
    rng = np.random.default_rng(0)
    graph = MultiViewGraph({"a": 60, "b": 50}, {("a", "b"): rng.poisson(0.1, (60, 50))})
    Y, Y_other = rng.normal(size=(60, 3)), rng.normal(size=(50, 3))
    samplers = [
        BlockSampler(graph, n_links=9, n_uniform=8, rng=np.random.default_rng(1)) for _ in range(2)
    ]
    found = estimate_log_partition(Y, Y_other, samplers[0], blocks=4)
    batches = [batch for _ in range(4) for batch in samplers[1].each_pair()]
    Z = [math.exp(partition._block_log_partition(batch, Y, Y_other)) for batch in batches]
    assert found.value == pytest.approx(math.log(statistics.mean(Z)), rel=1e-12)
    error = statistics.stdev(Z) / math.sqrt(4) / statistics.mean(Z)
    assert found.standard_error == pytest.approx(error, rel=1e-10)


def test_estimates_are_drawn_from_the_generator(monkeypatch):
    monkeypatch.setattr(partition, "BLOCK_SIZE", 2)
    graph, Y = graph_and_embeddings(0)
    values = [
        graph_log_partitions(graph, Y, rng=np.random.default_rng(seed), exact_terms=25)["a", "b"]
        for seed in (0, 0, 1)
    ]
    assert values[0] == values[1] != values[2]


def test_a_pair_without_links_is_summed_exactly():
    graph, Y = graph_and_embeddings(0)
    links = graph.links["a", "b"]
    empty = graph.with_links({("a", "b"): links.select(np.zeros(len(links), bool))})
    found = graph_log_partitions(empty, Y, rng=np.random.default_rng(0), exact_terms=0)
    assert found["a", "b"] == (log_partition(Y["a"], Y["b"]), 0.0, True)


def test_few_terms_are_summed_and_many_are_estimated():
    graph, Y = graph_and_embeddings(0)
    terms = {pair: links.n_terms for pair, links in graph.links.items()}
    assert terms == {("a", "a"): 21, ("a", "b"): 35, ("b", "c"): 15}
    found = graph_log_partitions(graph, Y, rng=np.random.default_rng(0), exact_terms=21)
    assert found["a", "a"].standard_error == 0
    assert {pair: log_Z.exact for pair, log_Z in found.items()} == {
        ("a", "a"): True,
        ("a", "b"): False,
        ("b", "c"): True,
    }
    exact = graph_log_partitions(graph, Y, rng=np.random.default_rng(0))
    # All entities of such small views are taken: the estimate is exact up to rounding of weights.
    assert found["a", "b"].value == pytest.approx(exact["a", "b"].value, rel=1e-6)
    assert found["a", "b"].standard_error == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("within", [False, True])
def test_tiles_of_any_size_give_the_same_estimate(within, monkeypatch):
    """A block, compared with its definition: all cells that are not masked, with their weights."""
    rng = np.random.default_rng(0)
    views = {"a": 60, "b": 50}
    pair = ("a", "a") if within else ("a", "b")
    W = np.triu(rng.poisson(0.1, (60, views[pair[1]])), 1)
    graph = MultiViewGraph(views, {pair: W})
    Y = {view: rng.normal(size=(n, 3)).astype(np.float32) for view, n in views.items()}
    batch = next(iter(BlockSampler(graph, n_links=9, n_uniform=8, rng=rng)))
    assert batch.corner
    total = 0.0
    masked = set(zip(*(part.tolist() for part in batch.masked), strict=True))
    for s, i in enumerate(batch.left.entities):
        for t, j in enumerate(batch.right.entities):
            g = sum(float(u) * float(v) for u, v in zip(Y["a"][i], Y[pair[1]][j], strict=True))
            weight = float(batch.left.log_weight[s]) + float(batch.right.log_weight[t])
            corner = batch.corner_weight if s < batch.corner and t < batch.corner else 1.0
            total += (s, t) not in masked and corner * math.exp(g + weight)
    for tile in (4, 5, 512):
        monkeypatch.setattr(partition, "TILE_ENTITIES", tile)
        found = partition._block_log_partition(batch, Y["a"], Y[pair[1]])
        assert found == pytest.approx(math.log(batch.factor * total), rel=1e-12)


def progress_of(work) -> list[tuple[int, int]]:
    calls = []
    work(lambda done, total: calls.append((done, total)))
    return calls


@pytest.mark.parametrize(
    "work",
    [
        lambda graph, Y, on_progress: log_likelihood(
            graph, Y, logs(ALPHA), on_progress=on_progress
        ),
        lambda graph, Y, on_progress: profile_log_likelihood(graph, Y, on_progress=on_progress),
        lambda graph, Y, on_progress: graph_log_partitions(
            graph, Y, rng=np.random.default_rng(0), on_progress=on_progress
        ),
        lambda graph, Y, on_progress: graph_log_partitions(
            graph, Y, rng=np.random.default_rng(0), exact_terms=25, on_progress=on_progress
        ),
    ],
)
def test_progress_increases_to_the_total(work, monkeypatch):
    small = partial(partition.log_partition, tile=2)
    for module in (partition, poisson, exact):
        monkeypatch.setattr(module, "log_partition", small)
    graph, Y = graph_and_embeddings(0)
    calls = progress_of(lambda on_progress: work(graph, Y, on_progress))
    done = [d for d, _ in calls]
    assert done == sorted(done)
    assert len({total for _, total in calls}) == 1
    assert calls[-1][0] == calls[-1][1] > 0
    assert len(calls) > 10


def test_progress_counts_the_cells_of_blocks(monkeypatch):
    """(a, a) has 21 terms, (b, c) 15; (a, b) is estimated from 32 blocks of 4 x 4 entities."""
    monkeypatch.setattr(partition, "BLOCK_SIZE", 2)
    graph, Y = graph_and_embeddings(0)
    rng = np.random.default_rng(0)
    calls = progress_of(
        lambda on_progress: graph_log_partitions(
            graph, Y, rng=rng, exact_terms=25, on_progress=on_progress
        )
    )
    blocks = [(21 + 16 * (block + 1), 548) for block in range(32)]
    assert calls == [(21, 548), *blocks, (548, 548)]
    assert all(isinstance(done, int) for done, _ in calls)


def test_progress_of_a_single_pair_term():
    graph = MultiViewGraph({"a": 1, "b": 1}, {("a", "b"): ([0], [0])})
    Y = dict.fromkeys("ab", np.ones((1, 1)))
    assert progress_of(
        lambda on_progress: profile_log_likelihood(graph, Y, on_progress=on_progress)
    ) == [(1, 1)]


def test_progress_counts_pair_terms():
    Y, Y_other = np.ones((5, 2)), np.ones((3, 2))
    across = progress_of(
        lambda on_progress: log_partition(Y, Y_other, tile=2, on_progress=on_progress)
    )
    assert across == [(4, 15), (6, 15), (10, 15), (12, 15), (14, 15), (15, 15)]
    within = progress_of(lambda on_progress: log_partition(Y, tile=2, on_progress=on_progress))
    assert within == [(1, 10), (5, 10), (7, 10), (8, 10), (10, 10), (10, 10)]
    assert all(isinstance(n, int) for call in within for n in call)
