"""Retrieval examples against a full sort of the similarities."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge.graph import parse_links
from pmvge.report.retrieval import examples
from pmvge.report.summary import PairData


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("k", [3, 100])
def test_examples_are_the_best_partners_with_the_status_of_their_links(
    within: bool, k: int
) -> None:
    rng = np.random.default_rng(0)
    n, m = 25, 25 if within else 12
    Y = rng.normal(size=(n, 4)).astype(np.float32)
    Y_other = Y if within else rng.normal(size=(m, 4)).astype(np.float32)
    kinds = rng.choice(3, p=[0.7, 0.2, 0.1], size=(n, m))  # no link, training, held out
    kinds = np.triu(kinds, 1) if within else kinds
    kinds[20:] = 0  # rows without links
    training, held = (
        parse_links("links", (kinds == kind).astype(float), (n, m), within, None) for kind in (1, 2)
    )
    pair = ("a", "a" if within else "b")
    data = PairData(pair, Y, Y_other, -1.0, training, held, 1.0)
    found = examples(data, k, np.random.default_rng(1))
    both = kinds + kinds.T if within else kinds
    assert len({example.position for example in found}) == 6
    for example in found:
        i = example.position
        assert example.held_out == (both[i] == 2).sum() > 0
        assert example.training == (both[i] == 1).sum()
        g = Y[i].astype(float) @ Y_other.T.astype(float)
        best = [j for j in np.argsort(-g).tolist() if not (within and j == i)][:k]
        assert [partner.position for partner in example.partners] == best
        names = ["new", "training", "held out"]
        statuses = [partner.status for partner in example.partners]
        assert statuses == [names[both[i, j]] for j in best]
        expected = [partner.expected for partner in example.partners]
        np.testing.assert_allclose(expected, np.exp(g[best] - 1), rtol=1e-5)


def test_rows_with_links_are_queried_first() -> None:
    Y = np.ones((40, 2), np.float32)
    held_out = parse_links("links", ([30], [0]), (40, 3), False, None)
    training = parse_links("links", ([20, 21], [1, 1]), (40, 3), False, None)
    data = PairData(("a", "b"), Y, Y[:3], 0.0, training, held_out, 1.0)
    queries = [example.position for example in examples(data, 2, np.random.default_rng(0))]
    assert {20, 21, 30} < set(queries)
    assert len(queries) == 6
    none = parse_links("links", ([], []), (2, 3), False, None)
    few = PairData(("a", "b"), Y[:2], Y[:3], 0.0, none, None, 1.0)
    assert [e.position for e in examples(few, 2, np.random.default_rng(0))] == [0, 1]
