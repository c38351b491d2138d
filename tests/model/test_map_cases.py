"""Maps of unusual models: few entities, few views, no links across views, every similarity."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

from pmvge import MultiViewGraph, PMvGE
from pmvge.maps import tsne
from pmvge.model import Map, compute_map, sample_map
from pmvge.model.mapping import compute as mapping
from pmvge.model.mapping.quality import TopPartners, partner_share
from pmvge.similarities import SIMILARITIES

GROUPS = 4


@pytest.fixture(autouse=True)
def fewer_steps(monkeypatch):
    monkeypatch.setattr(tsne, "EXAGGERATED", 100)
    monkeypatch.setattr(tsne, "STEPS", 250)


def fit(views, links, K=6, **settings):
    settings = {"max_steps": 150, "hidden_sizes": (16,), "random_state": 0, **settings}
    graph = MultiViewGraph(views, links)
    return PMvGE(K, progress=False, patience=None, **settings).fit(graph)


def grouped_links(sizes, seed=0, *, inside=0.5, outside=0.01):
    """Return links of two views between entities of the same group, position modulo 4."""
    rng = np.random.default_rng(seed)
    group = [np.arange(n) % GROUPS for n in sizes]
    chance = np.where(group[0][:, None] == group[1], inside, outside)
    return (rng.random(sizes) < chance).astype(float)


def check(model, drawn: Map):
    assert list(drawn.xy) == list(model.ids_)
    for view, xy in drawn.xy.items():
        assert xy.shape == (len(model.ids_[view]), 2)
        assert xy.dtype == np.float32
        assert np.isfinite(xy).all()
    assert drawn.method.endswith(".")


def group_share(drawn: Map, view: str, other: str) -> float:
    """Return the share of entities whose nearest point of another view is of their group."""
    near = cKDTree(drawn.xy[other]).query(drawn.xy[view])[1]
    return float((near % GROUPS == np.arange(len(near)) % GROUPS).mean())


@pytest.mark.slow
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_partners_are_close_with_every_similarity(similarity):
    model = fit({"a": 60, "b": 40}, {("a", "b"): grouped_links((60, 40))}, similarity=similarity)
    drawn = compute_map(model, progress=False)
    check(model, drawn)
    assert drawn.partner_share > 4 * drawn.chance_share
    assert drawn.chance_share == pytest.approx((4 / 40 + 6 / 60) / 2)


def test_views_that_lie_apart_are_joined():
    """The two views have opposite offsets, which t-SNE of the vectors shows and nothing else."""
    rng = np.random.default_rng(0)
    X = {}
    for view, sign in (("a", 1), ("b", -1)):
        centres = np.random.default_rng(9).normal(size=(GROUPS, 5))
        noise = 0.3 * rng.normal(size=(120, 5))
        X[view] = np.hstack([centres[np.arange(120) % GROUPS] + noise, np.full((120, 1), sign * 6)])
    links = grouped_links((120, 120))
    model = fit(X, {("a", "b"): links}, encoder="identity", similarity="inner", standardize=False)
    drawn = compute_map(model, progress=False)
    assert group_share(drawn, "a", "b") > 0.95
    plain = mapping.plain_layout(model)
    near = cKDTree(np.concatenate([plain["a"], plain["b"]])).query(plain["a"], k=10)[1]
    assert (near < 120).mean() > 0.95
    assert drawn.plain_share < 0.5 * drawn.partner_share


def test_one_view_with_links_within():
    links = np.triu(grouped_links((80, 80)), 1)
    model = fit({"paper": 80}, {("paper", "paper"): links})
    drawn = compute_map(model, progress=False)
    check(model, drawn)
    assert (drawn.partner_share, drawn.plain_share, drawn.chance_share) == (None, None, None)
    near = cKDTree(drawn.xy["paper"]).query(drawn.xy["paper"], k=2)[1][:, 1]
    assert (near % GROUPS == np.arange(80) % GROUPS).mean() > 0.9


def test_a_view_without_links_to_others_is_placed_by_its_vectors():
    rng = np.random.default_rng(0)
    views = {"a": 60, "b": 40, "c": rng.normal(size=(40, 3)), "d": rng.normal(size=(1, 3))}
    model = fit(views, {("a", "b"): grouped_links((60, 40))})
    drawn = compute_map(model, progress=False)
    check(model, drawn)
    assert group_share(drawn, "a", "b") > 0.9
    every = np.concatenate([drawn.xy[view] for view in "abc"])
    middle, width = every.mean(axis=0), np.ptp(every, axis=0).max()
    assert np.linalg.norm(drawn.xy["d"] - middle) < width  # not pushed away
    Y = model.embeddings_["c"]
    cosines = np.corrcoef(np.hstack([Y, -Y]))  # rows with mean 0
    similar = np.argsort(-cosines + 3 * np.eye(40), axis=1)[:, :4]
    near = cKDTree(drawn.xy["c"]).query(drawn.xy["c"], k=2)[1][:, 1]
    assert (near[:, None] == similar).any(axis=1).mean() > 0.5  # by chance 0.1


@pytest.mark.parametrize("sizes", [(2, 1), (1, 1), (3, 3)])
def test_few_entities(sizes):
    model = fit({"a": sizes[0], "b": sizes[1]}, {("a", "b"): np.ones(sizes)}, K=3, max_steps=5)
    check(model, compute_map(model, progress=False))


@pytest.mark.slow
@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("effects", ["none", "auto"])
def test_vectors_of_one_or_two_numbers(K, effects):
    settings = {"similarity": "inner", "effects": effects}
    model = fit({"a": 60, "b": 40}, {("a", "b"): grouped_links((60, 40))}, K=K, **settings)
    drawn = compute_map(model, progress=False)
    check(model, drawn)
    assert drawn.partner_share > 2 * drawn.chance_share


def test_equal_vectors():
    X = {"a": np.ones((30, 3)), "b": np.ones((20, 3))}
    links = {("a", "b"): np.ones((30, 20))}
    for effects in ("none", "auto"):
        model = fit(X, links, K=3, encoder="linear", effects=effects, max_steps=5)
        check(model, compute_map(model, progress=False))


def test_a_model_without_effects_and_a_view_of_many_equal_vectors():
    rng = np.random.default_rng(0)
    X = np.where(np.arange(300)[:, None] < 250, 0.0, rng.normal(size=(300, 3)))
    links = grouped_links((300, 40))
    model = fit({"a": X, "b": 40}, {("a", "b"): links}, effects="none")
    check(model, compute_map(model, progress=False))


def test_entities_outside_the_sample_are_placed_near_their_group(monkeypatch):
    model = fit({"a": 400, "b": 160}, {("a", "b"): grouped_links((400, 160), inside=0.2)})
    whole = compute_map(model, progress=False)
    monkeypatch.setattr(mapping, "MAX_FITTED", 300)
    monkeypatch.setattr(mapping, "SAMPLE", 200)
    monkeypatch.setattr(mapping, "CHUNK", 70)
    calls = []
    drawn = compute_map(model, on_progress=lambda done, total: calls.append(done / total))
    check(model, drawn)
    assert "fitted to 200 of 560 entities" in drawn.method
    assert group_share(drawn, "a", "b") > 0.9
    assert group_share(drawn, "b", "a") > 0.9
    assert 4 * drawn.chance_share < drawn.partner_share < whole.partner_share
    assert calls == sorted(calls)
    assert calls[-1] == 1
    again = compute_map(model, progress=False)
    assert all(np.array_equal(again.xy[view], drawn.xy[view]) for view in drawn.xy)


def test_a_sample_has_the_layout_of_its_entities():
    model = fit({"a": 60, "b": 40}, {("a", "b"): grouped_links((60, 40))})
    drawn = sample_map(model, 50)
    assert {view: len(at) for view, at in drawn.positions.items()} == {"a": 25, "b": 25}
    near = cKDTree(drawn.xy["b"]).query(drawn.xy["a"])[1]
    groups = {view: at % GROUPS for view, at in drawn.positions.items()}
    assert (groups["b"][near] == groups["a"]).mean() > 0.8


def test_large_models_have_no_plain_share(monkeypatch):
    model = fit({"a": 60, "b": 40}, {("a", "b"): grouped_links((60, 40))})
    monkeypatch.setattr(mapping, "MAX_PLAIN", 99)
    drawn = compute_map(model, progress=False)
    assert drawn.plain_share is None
    assert drawn.partner_share is not None
    unchecked = compute_map(model, progress=False, check=False)
    assert unchecked.partner_share is None
    assert all(np.array_equal(unchecked.xy[view], drawn.xy[view]) for view in drawn.xy)


def test_the_partner_share_by_hand():
    xy = {"a": np.array([[0.0, 0.0], [9.0, 0.0]]), "b": np.array([[1.0, 0], [2, 0], [8, 0]])}
    top = {
        ("a", "b"): TopPartners(np.array([0, 1]), np.array([[0, 2], [0, 1]])),  # 1 of 2, 1 of 2
        ("b", "a"): TopPartners(np.array([2]), np.array([[1]])),  # 1 of 1
    }
    assert partner_share(xy, top) == (0.5 + 1) / 2
    assert partner_share(xy, {}) is None
