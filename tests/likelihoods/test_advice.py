"""Advice on families, from the weights of a graph."""

import numpy as np
import pytest

from pmvge import MultiViewGraph
from pmvge.likelihoods import advise_families, build_family


def graph_of(weights, shape=(20, 20)):
    W = np.zeros(shape)
    W.flat[: len(weights)] = weights
    return MultiViewGraph({"a": shape[0], "b": shape[1]}, {("a", "b"): W})


def variance_over_mean(weights, n):
    cells = np.append(weights, np.zeros(n - len(weights)))
    return cells.var() / cells.mean()


@pytest.mark.parametrize(
    ("weights", "advice"),
    [
        ([1.0, 2.0, 3.0], None),
        ([1.0] * 90, None),
        (
            [1.0] * 120,
            "all weights are 1 and 30% of the pairs are linked: try pmvge fit --family bernoulli",
        ),
        (
            [1.0] * 40 + [100.0] * 4,
            "counts with variance {} times the mean: try pmvge fit --family negative",
        ),
        (
            [0.5] * 40 + [100.0] * 4,
            "weights with variance {} times the mean: try pmvge fit --family beta",
        ),
    ],
)
def test_advice(weights, advice):
    graph = graph_of(weights)
    notes = advise_families(graph, build_family("poisson", tuple(graph.links)))
    if advice is None:
        assert notes == []
        return
    ratio = f"{variance_over_mean(weights, 400):,.0f}"
    assert len(notes) == 1
    assert notes[0].startswith(f"links a,b: {advice.format(ratio)}")


def test_a_family_that_was_chosen_gets_no_advice():
    graph = graph_of([1.0] * 40 + [100.0] * 4)
    for name in ("negative_binomial", "beta"):
        assert advise_families(graph, build_family(name, tuple(graph.links))) == []


def test_view_pairs_without_links_get_no_advice():
    links = {("a", "b"): ([], []), ("a", "a"): ([0], [1], [2.0])}
    graph = MultiViewGraph({"a": 3, "b": 3}, links)
    assert advise_families(graph, build_family("poisson", tuple(graph.links))) == []
