"""Heavy tails of weights, and view pairs with nearly all weight."""

import numpy as np
import pytest

from pmvge import MultiViewGraph
from pmvge.graph import dominant_pair, effective_share, has_heavy_tail


def links(weights):
    n = len(weights)
    graph = MultiViewGraph({"a": n, "b": n}, {("a", "b"): (range(n), range(n), weights)})
    return graph.links["a", "b"]


def test_the_effective_share_counts_links_of_equal_weight():
    assert effective_share(links([3.0] * 7)) == 1.0
    weights = [1e-9] * 90 + [5.0] * 10  # ten links hold all weight
    assert effective_share(links(weights)) == pytest.approx(0.1, rel=1e-6)
    w = np.random.default_rng(0).exponential(size=50)
    assert effective_share(links(w)) == pytest.approx(w.sum() ** 2 / (50 * (w**2).sum()))
    assert effective_share(links([1e300, 1e300, 1e200])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("draw", "heavy"),
    [
        (lambda rng: rng.integers(1, 6, size=5000), False),  # stars
        (lambda rng: rng.geometric(0.3, size=5000), False),  # counts
        (lambda rng: rng.exponential(size=5000), False),
        (lambda rng: np.log1p(rng.lognormal(5, 2, size=5000)), False),
        (lambda rng: rng.lognormal(5, 2, size=5000), True),  # plays of artists are like this
        (lambda rng: [1e6, *[1.0] * 98], False),  # too few to tell
        (lambda rng: [1e6, *[1.0] * 99], True),
    ],
)
def test_only_weights_that_few_links_hold_have_a_heavy_tail(draw, heavy):
    assert has_heavy_tail(links(draw(np.random.default_rng(0)))) is heavy


def test_a_view_pair_with_nearly_all_weight_is_found():
    views = {"a": 3, "b": 2, "c": 2}
    small = ([0, 1], [0, 1], [1.0, 2.0])
    large = ([0, 1], [0, 1], [500.0, 700.0])
    pairs = {("a", "b"): large, ("b", "c"): small}
    assert dominant_pair(MultiViewGraph(views, pairs).links) == ("a", "b")
    assert dominant_pair(MultiViewGraph(views, {**pairs, ("a", "c"): large}).links) is None
    assert dominant_pair(MultiViewGraph(views, {("a", "b"): large}).links) is None
