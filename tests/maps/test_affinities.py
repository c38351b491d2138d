"""Affinities of relations, against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge.maps import Relation
from pmvge.maps.affinities import affinities, relation_weights


def test_affinities_by_hand() -> None:
    relations = [
        Relation("a", "a", np.array([[1], [0]]), "similar"),
        Relation("a", "b", np.array([[0], [0]]), "partners"),
        Relation("b", "a", np.array([[0, 1]]), "partners"),
    ]
    P = affinities({"a": 2, "b": 1}, relations, share=0.6).toarray()
    # Each entity gives 1: those of a 0.4 to each other and 0.6 to b, that of b 0.5 to each of a.
    given = np.array([[0, 0.4, 0.6], [0.4, 0, 0.6], [0.5, 0.5, 0]])
    np.testing.assert_allclose(P, (given + given.T) / 6, rtol=1e-12)


def test_partners_share_equally_over_views_and_one_kind_gets_everything() -> None:
    relations = [
        Relation("a", "a", np.array([[1, 2], [0, -1], [-1, -1]]), "similar"),
        Relation("a", "b", np.array([[0], [0], [0]]), "partners"),
        Relation("a", "c", np.array([[0], [0], [-1]]), "partners"),
        Relation("b", "b", np.array([[-1]]), "similar"),
        Relation("c", "a", np.array([[2]]), "partners"),
    ]
    similar, b, c, none, whole = relation_weights(relations, share=0.6)
    np.testing.assert_allclose(similar, [[0.2, 0.2], [0.4, 0], [0, 0]])
    np.testing.assert_allclose(b, [[0.3], [0.3], [0.3]])
    np.testing.assert_allclose(c, [[0.3], [0.3], [0]])
    np.testing.assert_allclose(none, [[0]])
    np.testing.assert_allclose(whole, [[1.0]])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_affinities_are_symmetric_and_sum_to_1(share: float) -> None:
    rng = np.random.default_rng(0)
    relations = [
        Relation("a", "a", rng.integers(7, size=(7, 3)), "similar"),
        Relation("a", "b", rng.integers(5, size=(7, 2)), "partners"),
        Relation("b", "a", rng.integers(7, size=(5, 2)), "partners"),
        Relation("b", "b", rng.integers(5, size=(5, 2)), "similar"),
    ]
    P = affinities({"a": 7, "b": 5}, relations, share=share).toarray()
    np.testing.assert_allclose(P, P.T)
    assert P.sum() == pytest.approx(1)
    assert P[:7, 7:].sum() == pytest.approx(share / 2)


def test_entities_without_relations_have_no_affinities() -> None:
    P = affinities({"a": 2}, [])
    assert P.shape == (2, 2)
    assert P.sum() == 0
