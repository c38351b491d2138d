"""Retrieval examples against a full sort of the similarities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.report.retrieval import examples, similar
from pmvge.report.summary import pair_data


def identity_model(views: dict[str, Any], links: Any, held: Any = None) -> PMvGE:
    """Return a model whose vectors are the features."""
    model = PMvGE(4, encoder="identity", similarity="inner", max_steps=1, patience=None)
    validation = None if held is None else MultiViewGraph(views, held)
    return model.fit(MultiViewGraph(views, links), validation)


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
    pair = ("a", "a" if within else "b")
    views = {"a": Y} if within else {"a": Y, "b": Y_other}
    model = identity_model(views, *({pair: (kinds == kind).astype(float)} for kind in (1, 2)))
    (data,) = pair_data(model)
    found = examples(model, data, k, np.random.default_rng(1))
    both = kinds + kinds.T if within else kinds
    assert len({example.position for example in found}) == 6
    for example in found:
        i = example.position
        assert example.held_out == (both[i] == 2).sum() > 0
        assert example.training == (both[i] == 1).sum()
        g = Y[i].astype(float) @ Y_other.T.astype(float)
        ranked = [j for j in np.argsort(-g).tolist() if not (within and j == i)]
        best = [j for j in ranked if both[i, j] != 1][:k]
        assert [partner.position for partner in example.partners] == best
        statuses = [partner.status for partner in example.partners]
        assert statuses == ["held out" if both[i, j] == 2 else "new" for j in best]
        # All weights are 1: the strongest known links are those with the largest expected weights.
        known = [j for j in ranked if both[i, j] == 1]
        assert {partner.position for partner in example.known} <= {*known}
        assert len(example.known) == min(3, len(known))
        assert {partner.status for partner in example.known} <= {"training"}
        expected = [partner.expected for partner in example.partners]
        np.testing.assert_allclose(expected, np.exp(g[best] + data.log_alpha), rtol=1e-5)


def test_rows_with_links_are_queried_first() -> None:
    views = {"a": np.ones((40, 4)), "b": np.ones((3, 4))}
    model = identity_model(views, {("a", "b"): ([20, 21], [1, 1])}, {("a", "b"): ([30], [0])})
    (data,) = pair_data(model)
    queries = [e.position for e in examples(model, data, 2, np.random.default_rng(0))]
    assert {20, 21, 30} < set(queries)
    assert len(queries) == 6
    few = identity_model({"a": np.ones((2, 4)), "b": np.ones((3, 4))}, {("a", "b"): ([1], [0])})
    (data,) = pair_data(few)
    assert [e.position for e in examples(few, data, 2, np.random.default_rng(0))] == [0, 1]


def test_the_strongest_known_links_are_shown() -> None:
    views = {"a": np.ones((4, 4)), "b": np.ones((6, 4))}
    weights = np.array([[0, 5.0, 1, 9, 2, 0]] * 4)
    (data,) = pair_data(model := identity_model(views, {("a", "b"): weights}))
    for example in examples(model, data, 3, np.random.default_rng(0)):
        assert [partner.position for partner in example.known] == [3, 1, 4]
        assert [partner.position for partner in example.partners] == [0, 5]


def test_similar_entities_have_the_largest_cosines() -> None:
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(9, 4)).astype(np.float32)
    links = ([5, 5, 5, 2, 2, 7], [0, 1, 2, 0, 1, 0])
    model = identity_model({"a": Y, "b": rng.normal(size=(3, 4))}, {("a", "b"): links})
    found = similar(model, "a", 4, queries=3)
    assert [position for position, _ in found] == [5, 2, 7]  # the most links first
    unit = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    for position, partners in found:
        cosines = unit @ unit[position]
        best = [j for j in np.argsort(-cosines).tolist() if j != position][:4]
        assert [partner.position for partner in partners] == best
        np.testing.assert_allclose([p.expected for p in partners], cosines[best], rtol=1e-5)


def test_similar_entities_are_those_of_the_model() -> None:
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(9, 4)), "b": rng.normal(size=(3, 4))}
    graph = MultiViewGraph(views, {("a", "b"): ([5, 2], [0, 1])})
    model = PMvGE(4, encoder="identity", similarity="euclidean", max_steps=1, patience=None)
    ((position, partners),) = similar(model.fit(graph), "a", 20, queries=1)
    distances = np.linalg.norm(model.embeddings_["a"] - model.embeddings_["a"][position], axis=1)
    assert [partner.position for partner in partners] == np.argsort(distances)[1:].tolist()
    np.testing.assert_allclose(
        [partner.expected for partner in partners], -(np.sort(distances)[1:] ** 2) / 2, rtol=1e-4
    )


def test_no_partner_is_not_taken_for_the_entity_with_the_id_minus_one() -> None:
    rng = np.random.default_rng(0)
    Y = {"a": rng.normal(size=(4, 4)), "b": rng.normal(size=(3, 4))}
    model = PMvGE(4, encoder="identity", similarity="inner", max_steps=1, patience=None)
    model.fit(MultiViewGraph(Y, {("a", "a"): ([0, 1], [1, 2])}, ids={"a": [-1, 0, 1, 2]}))
    (data,) = pair_data(model)
    for example in examples(model, data, 5, np.random.default_rng(0)):
        assert all(np.isfinite(partner.expected) for partner in example.partners)
