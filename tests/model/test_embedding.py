"""PMvGE.embed and PMvGE.vectors of known and new entities."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive

X = np.random.default_rng(0).normal(size=(8, 3))


@pytest.fixture(scope="module")
def model():
    ids = {"item": [f"i{n}" for n in range(8)], "tag": ["a", "b", "c"]}
    links = {("item", "tag"): (np.arange(8), np.arange(8) % 3)}
    graph = MultiViewGraph({"item": X, "tag": 3}, links, ids)
    return PMvGE(4, effects="none", max_steps=5, random_state=0, progress=False).fit(graph)


def test_ids_give_the_vectors_of_training_entities(model):
    for view, names, at in (("item", ["i5", "i0"], [5, 0]), ("tag", ["c", "a"], [2, 0])):
        np.testing.assert_array_equal(model.embed(view, ids=names), model.embeddings_[view][at])
        np.testing.assert_array_equal(model.vectors(view, ids=names), model.embeddings_[view][at])
    np.testing.assert_array_equal(model.embed("tag", ["b"]), model.embeddings_["tag"][[1]])


def test_vectors_of_all_entities_are_a_copy(model):
    before = model.embeddings_["item"].copy()
    model.vectors("item")[:] = 0
    np.testing.assert_array_equal(model.embeddings_["item"], before)


def test_rows_with_ids_are_embedded_from_their_features(model):
    rows = X[::-1][:3]
    found = model.embed("item", rows, ids=["i7", "new", "i0"])
    np.testing.assert_array_equal(found, model.embed("item", rows))


def test_unknown_ids_without_features_are_refused(model):
    for view in ("item", "tag"):
        with pytest.raises(NotInductive, match=f"'{view}'.*1 unknown, such as 'x'"):
            model.embed(view, ids=["x"])


def test_invalid_combinations_are_refused(model):
    with pytest.raises(InputError, match="'item': expected X, ids or both, got neither"):
        model.embed("item")
    with pytest.raises(InputError, match="'item': expected 2 ids, one per row, got 1"):
        model.embed("item", X[:2], ids=["i0"])
    with pytest.raises(InputError, match="'tag' has no features: expected ids alone"):
        model.embed("tag", ["a"], ids=["a"])
    with pytest.raises(InputError, match="ids must be all integers or all strings"):
        model.embed("item", X[:2], ids=["i0", 1])
