"""Entities of a request: first links, ids of filters."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError
from pmvge.serving.entities import find_entities
from pmvge.serving.routes.partners import find_partners
from pmvge.serving.schemas import LinkedEntities, SearchRequest
from pmvge.serving.settings import Limits
from pmvge.tables import LinkTable, Source, graph_from_frames

PLAYS = pd.DataFrame({"user": ["u1", "u2", "u3"], "song": ["s1", "s2", "s1"], "n": [1, 7, 3]})


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("sum", np.log(7)), ("max", np.log(6)), ("count", np.log(3))]
)
def test_repeated_first_links_are_combined_as_in_the_link_table(aggregate, expected):
    table = LinkTable(Source(frame=PLAYS), ("user", "song"), "n", aggregate, transform="log1p")
    graph = graph_from_frames({"users": None, "songs": None}, {("users", "songs"): table})
    model = PMvGE(2, max_steps=2, patience=None, random_state=0, progress=False).fit(graph)
    links = {"songs": [{"id": "s1", "weight": 1}, {"id": "s1", "weight": 5}]}
    request = LinkedEntities(view="users", links=links)
    chunk, _ = find_entities(model, request, Limits())
    rows, ids, weights = chunk.links["songs"]
    assert (rows.tolist(), ids.tolist()) == ([0], ["s1"])
    assert weights.tolist() == pytest.approx([expected])


@pytest.mark.parametrize("given", [["3", "5"], [3, 5], ["3", 5]])
def test_filters_take_ids_as_queries_do(given):
    rng = np.random.default_rng(0)
    links = (rng.integers(8, size=40), rng.integers(6, size=40))
    graph = MultiViewGraph({"users": 8, "films": 6}, {("users", "films"): links})
    model = PMvGE(2, max_steps=2, patience=None, random_state=0, progress=False).fit(graph)

    def found(**filters):
        request = SearchRequest(view="users", ids=["0"], among="films", k=6, **filters)
        answer = find_partners(SimpleNamespace(model=model), request, Limits())
        return {partner["id"] for partner in answer["results"][0]["partners"]}

    assert found(deny=given) == {0, 1, 2, 4}
    assert found(allow=given) == {3, 5}
    assert found(allow=[]) == set()
    assert found(deny=[]) == set(range(6))
    for wrong in ("x", str(2**70), "1.5"):
        with pytest.raises(InputError, match="deny: expected integers, as the ids of 'films', got"):
            found(deny=[1, wrong])
    with pytest.raises(InputError, match=r"allow: expected ids .* got 1 unknown, such as 77"):
        found(allow=["77"])
