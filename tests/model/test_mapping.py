"""The map of a model, and its file beside the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE, storage
from pmvge.errors import StorageError
from pmvge.model import Map, compute_map, saved_map


def fit(seed=0, **settings):
    rng = np.random.default_rng(0)
    z, t = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    W = rng.poisson(0.5 * np.exp(0.8 * z @ t.T).clip(0, 20))
    graph = MultiViewGraph({"users": z, "films": t}, {("users", "films"): W})
    settings = {"max_steps": 40, "hidden_sizes": (8,), **settings}
    return PMvGE(4, random_state=seed, progress=False, **settings).fit(graph)


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture(scope="module")
def drawn(model):
    return compute_map(model, progress=False)


def assert_equal(a: Map, b: Map):
    assert a.xy.keys() == b.xy.keys()
    assert all(np.array_equal(a.xy[view], b.xy[view]) for view in a.xy)
    for name in ("method", "partner_share", "plain_share", "chance_share", "checksum"):
        assert getattr(a, name) == getattr(b, name)


def test_a_map_has_the_entities_of_all_views(model, drawn):
    assert {view: xy.shape for view, xy in drawn.xy.items()} == {
        view: (len(ids), 2) for view, ids in model.ids_.items()
    }
    assert all(xy.dtype == np.float32 and np.isfinite(xy).all() for xy in drawn.xy.values())
    assert drawn.method.endswith(".")


def test_a_map_is_saved_beside_the_model(model, drawn, tmp_path):
    model.save(tmp_path)
    path = drawn.save(tmp_path)
    assert path.parent == tmp_path
    assert path.exists()
    assert_equal(Map.load(tmp_path, model), drawn)
    loaded = PMvGE.load(tmp_path)
    assert_equal(Map.load(tmp_path, loaded), drawn)
    loaded.save(tmp_path)  # the same vectors: the map stays
    assert_equal(Map.load(tmp_path, model), drawn)
    drawn.save(tmp_path)
    assert len(list(tmp_path.glob("map*"))) == 2


def test_a_missing_map_is_an_error(model, tmp_path):
    with pytest.raises(StorageError, match="there is no saved map; compute it"):
        Map.load(tmp_path, model)


def test_a_map_of_other_vectors_is_an_error(model, drawn, tmp_path):
    drawn.save(tmp_path)
    other = fit(seed=1)
    with pytest.raises(StorageError, match="stale: it was computed from other vectors"):
        Map.load(tmp_path, other)
    saved = saved_map(other, tmp_path, progress=False)  # replaces it
    assert_equal(Map.load(tmp_path, other), saved)


def test_a_damaged_map_is_an_error_and_is_replaced(model, drawn, tmp_path):
    drawn.save(tmp_path)
    (data,) = tmp_path.glob("map-*.safetensors")
    data.write_bytes(data.read_bytes()[:-3])
    with pytest.raises(StorageError, match="damaged"):
        Map.load(tmp_path, model)
    assert_equal(saved_map(model, tmp_path, progress=False), drawn)
    assert_equal(Map.load(tmp_path, model), drawn)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partner_share": 2.0}, "from 0 to 1"),
        ({"plain_share": "x"}, "plain_share"),
        ({"views": ["users", "films"]}, "coordinates"),
        ({"views": ["films"]}, "coordinates"),
        ({"views": 3}, "views"),
        ({"method": 3}, "method"),
        ({"vectors": 3}, "vectors"),
    ],
)
def test_a_wrong_value_in_the_manifest_is_an_error(model, drawn, tmp_path, change, message):
    path = drawn.save(tmp_path)
    manifest = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({**manifest, "checksum": storage._checksum(manifest)}))
    with pytest.raises(StorageError, match=message):
        Map.load(tmp_path, model)


def test_a_saved_map_is_not_computed_again(model, drawn, tmp_path, monkeypatch):
    drawn.save(tmp_path)
    monkeypatch.setattr("pmvge.model.mapping.compute.compute_map", None)
    assert_equal(saved_map(model, tmp_path, progress=False), drawn)


def test_a_map_that_cannot_be_saved_is_returned_with_a_warning(model, drawn, tmp_path):
    taken: Path = tmp_path / "file"
    taken.write_text("")
    with pytest.warns(UserWarning, match="the map is computed each time"):
        assert_equal(saved_map(model, taken, progress=False), drawn)


def test_the_same_seed_gives_the_same_map(model, drawn):
    assert_equal(compute_map(model, progress=False), drawn)
    other = compute_map(model, seed=1, progress=False)
    assert not all(np.array_equal(other.xy[view], drawn.xy[view]) for view in drawn.xy)


def test_progress_reaches_the_end(model):
    calls = []
    compute_map(model, on_progress=lambda done, total: calls.append((done, total)))
    assert calls
    assert calls[-1][0] == calls[-1][1]
    shares = [done / total for done, total in calls]
    assert shares == sorted(shares)
