"""Random walks against transition probabilities computed node by node."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pmvge.graph import WalkSampler, cooccurrences, walks

# A triangle 0-1-2 with a tail 2-3-4 of other weights, and 5, which has no links.
LINKS = {(0, 1): 1.0, (0, 2): 3.0, (1, 2): 2.0, (2, 3): 4.0, (3, 4): 0.5}
N = 6


def adjacency() -> np.ndarray:
    W = np.zeros((N, N))
    for (i, j), w in LINKS.items():
        W[i, j] = W[j, i] = w
    return W


def second_order(t: int, v: int, p: float, q: float) -> np.ndarray:
    """Return the probabilities of the step after t, v, by the formula of the node2vec paper."""
    W = adjacency()
    weights = np.zeros(N)
    for x in range(N):
        bias = 1 / p if x == t else 1 if W[t, x] > 0 else 1 / q
        weights[x] = bias * W[v, x]
    return weights / weights.sum()


def assert_drawn_from(nodes: np.ndarray, probabilities: np.ndarray) -> None:
    """Assert that frequencies are within 5 standard deviations of the probabilities."""
    frequencies = np.bincount(nodes, minlength=N) / len(nodes)
    deviation = np.sqrt(probabilities * (1 - probabilities) / len(nodes))
    assert (np.abs(frequencies - probabilities) <= 5 * deviation).all()


def test_steps_follow_the_weights():
    W = adjacency()
    sampler = WalkSampler(sparse.csr_array(W))
    for v in range(N - 1):
        steps = sampler.walk(np.full(20_000, v), 2, np.random.default_rng(v))
        assert (steps[:, 0] == v).all()
        assert_drawn_from(steps[:, 1], W[v] / W[v].sum())


@pytest.mark.parametrize("proposals", [0, 2, 16])  # 0: all from the exact distribution
@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (3.0, 0.5), (1e-4, 1e4), (1e4, 1e4)])
def test_biased_steps_follow_node2vec(p, q, proposals, monkeypatch):
    monkeypatch.setattr(walks, "MAX_PROPOSALS", proposals)
    monkeypatch.setattr(walks, "MAX_OUTCOMES", 1000)  # several groups
    sampler = WalkSampler(sparse.csr_array(adjacency()), p=p, q=q)
    walked = sampler.walk(np.repeat(np.arange(N - 1), 8000), 3, np.random.default_rng(0))
    for i, j in LINKS:
        for t, v in [(i, j), (j, i)]:
            selected = walked[(walked[:, 0] == t) & (walked[:, 1] == v)]
            assert_drawn_from(selected[:, 2], second_order(t, v, p, q))


def test_all_later_steps_are_biased_too():
    sampler = WalkSampler(sparse.csr_array(adjacency()), p=0.25, q=4.0)
    walked = sampler.walk(np.zeros(200, np.int64), 500, np.random.default_rng(0))
    t, v, x = walked[:, 10:-2].ravel(), walked[:, 11:-1].ravel(), walked[:, 12:].ravel()
    assert_drawn_from(x[(t == 1) & (v == 2)], second_order(1, 2, 0.25, 4.0))


@pytest.mark.parametrize("bias", [{}, {"p": 0.5, "q": 2.0}])
def test_a_walk_stays_at_a_node_without_links(bias):
    rng = np.random.default_rng(0)
    sampler = WalkSampler(sparse.csr_array(adjacency()), **bias)
    assert (sampler.walk(np.array([5, 5]), 4, rng) == 5).all()
    empty = WalkSampler(sparse.csr_array((3, 3)), **bias)
    assert empty.walk(np.arange(3), 4, rng).tolist() == [[0] * 4, [1] * 4, [2] * 4]


def test_steps_are_exact_for_weights_of_very_different_sizes():
    W = sparse.csr_array(np.kron(np.diag([1e20, 1e-20]), [[0, 1, 1], [1, 0, 0], [1, 0, 0]]))
    steps = WalkSampler(W).walk(np.full(4000, 3), 2, np.random.default_rng(0))[:, 1]
    assert 1800 < (steps == 4).sum() < 2200
    assert 1800 < (steps == 5).sum() < 2200


def test_stored_zeros_and_unsorted_columns_are_handled():
    # Row 0: column 2 with weight 1, column 1 with a stored 0.
    W = sparse.csr_array((np.array([1.0, 0.0, 1.0]), np.array([2, 1, 0]), np.array([0, 2, 2, 3])))
    W.resize(3, 3)
    walked = WalkSampler(W, q=0.5).walk(np.array([0, 2, 1]), 4, np.random.default_rng(0))
    assert walked.tolist() == [[0, 2, 0, 2], [2, 0, 2, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_cooccurrences_are_those_of_a_double_loop(window):
    walked = np.array([[0, 1, 2, 1], [4, 3, 4, 3]])
    expected = sorted(
        (int(walk[a]), int(walk[b]))
        for walk in walked
        for a in range(4)
        for b in range(4)
        if a != b and abs(a - b) <= window
    )
    heads, tails = cooccurrences(walked, window)
    assert sorted(zip(heads.tolist(), tails.tolist(), strict=True)) == expected


def test_a_walk_of_one_node_has_no_cooccurrences():
    heads, tails = cooccurrences(np.array([[0], [1]]), 5)
    assert len(heads) == len(tails) == 0
