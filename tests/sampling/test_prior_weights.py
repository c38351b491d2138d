"""The prior of a step: its expectation is the prior of all entities, whatever the batch.

Every possible draw is enumerated, or drawn many times. The penalties are random numbers: an
expectation that is right for them is right for every prior.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pmvge import MultiViewGraph
from pmvge.sampling import BlockSampler, PairSampler

TOTAL = 7.0

CROSS = {("a", "b"): ([0, 3, 4], [1, 2, 0], [2.0, 1.0, 90.0])}
WITHIN = {("a", "a"): ([0, 1, 2], [1, 3, 3], [2.0, 40.0, 0.5])}
GRAPHS = {
    "cross-view": ({"a": 5, "b": 4}, CROSS),
    "within a view": ({"a": 5}, WITHIN),
    "several view pairs": ({"a": 5, "b": 4, "c": 3}, CROSS | WITHIN | {("b", "c"): ([1], [2])}),
}
# Links, and uniform entities a side: all views are sampled, some are whole, all are whole.
SIZES = {"sampled": (2, 1), "partly whole": (2, 2), "whole": (20, 5)}


def penalties(graph):
    rng = np.random.default_rng(0)
    return {view: rng.random(n) + 0.1 for view, n in graph.sizes.items()}


def penalty_of(batch, weights, each):
    return sum(
        float(weights[view][entities] @ each[view][entities]) for view, entities in batch.inputs
    )


def in_prior(graph, each):
    """The sum over the entities that a step can have: those of views with links."""
    views = {view for pair in graph.links for view in pair}
    return sum(float(each[view].sum()) for view in views)


@pytest.mark.parametrize("measure", ["weight", "uniform"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("data", GRAPHS.values(), ids=GRAPHS.keys())
def test_the_expected_penalty_of_a_block_is_the_prior(data, sizes, measure):
    graph = MultiViewGraph(*data)
    sampler = BlockSampler(
        graph,
        n_links=sizes[0],
        n_uniform=sizes[1],
        rng=np.random.default_rng(1),
        measure=measure,
    )
    weights, each = sampler.prior_weights(TOTAL), penalties(graph)
    values = np.array([penalty_of(b, weights, each) for b in itertools.islice(sampler, 5_000)])
    error = values.std() / np.sqrt(len(values))
    assert values.mean() == pytest.approx(
        in_prior(graph, each) / TOTAL, abs=5 * error + 1e-6 * values.mean()
    )


def test_a_whole_view_has_its_exact_prior_in_every_step():
    graph = MultiViewGraph(*GRAPHS["within a view"])
    sampler = BlockSampler(graph, n_links=2, n_uniform=3, rng=np.random.default_rng(1))
    weights, each = sampler.prior_weights(TOTAL), penalties(graph)
    for batch in itertools.islice(sampler, 5):
        assert penalty_of(batch, weights, each) == pytest.approx(each["a"].sum() / TOTAL)


class Script:
    """A generator that returns prescribed numbers."""

    def __init__(self, numbers) -> None:
        self.numbers = list(numbers)

    def integers(self, high: int, size: int) -> np.ndarray:
        return np.asarray(self.numbers.pop(0)).reshape(size)


@pytest.mark.parametrize(("n_links", "n_uniform"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("data", GRAPHS.values(), ids=GRAPHS.keys())
def test_the_expected_penalty_of_the_papers_batch_is_the_prior(data, n_links, n_uniform):
    """All draws, enumerated; an entity that is drawn twice is encoded once."""
    graph = MultiViewGraph(*data)
    sizes = {"m": 3, "r": n_uniform / n_links, "tau": None}
    weights = PairSampler(graph, **sizes, rng=Script([])).prior_weights(TOTAL)
    each, values = penalties(graph), []
    for links in itertools.product(range(graph.n_links), repeat=n_links):
        for uniform in itertools.product(range(graph.n_terms), repeat=n_uniform):
            sampler = PairSampler(graph, **sizes, rng=Script([links, uniform]))
            values.append(penalty_of(next(iter(sampler)), weights, each))
    assert np.mean(values) == pytest.approx(in_prior(graph, each) / TOTAL, rel=1e-9)


def test_the_total_is_the_measure_of_all_links():
    graph = MultiViewGraph(*GRAPHS["several view pairs"])
    rng = np.random.default_rng(0)
    by_weight = BlockSampler(graph, n_links=2, n_uniform=2, rng=rng)
    by_link = BlockSampler(graph, n_links=2, n_uniform=2, rng=rng, measure="uniform")
    assert by_weight.total == pytest.approx(93 + 42.5 + 1)
    assert by_link.total == 7
    assert PairSampler(graph, m=4, r=1.0, tau=None, rng=rng).total == 7
