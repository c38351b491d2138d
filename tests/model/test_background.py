"""Background: training links, held-out links and labels, in memory and on disk."""

import tracemalloc

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, StorageError
from pmvge.graph import hold_out_links
from pmvge.model import Background, load_background

LABELS = {"a": {"colour": ["red", "", "blaü"] * 4, "size": list(range(12))}}


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(12, 3)), "b": 7, "c": 5}
    W = {("a", "b"): rng.poisson(1.0, (12, 7)), ("a", "a"): np.triu(rng.poisson(1.0, (12, 12)), 1)}
    links = {pair: (*np.nonzero(w), w[np.nonzero(w)]) for pair, w in W.items()}
    links["c", "b"] = ([0, 1], [2, 3], [0.1, 1e9])
    return MultiViewGraph(views, links)


@pytest.fixture(scope="module")
def parts(graph):
    return hold_out_links(graph, 0.25, np.random.default_rng(1))


@pytest.fixture(scope="module")
def model(parts):
    return PMvGE(2, max_steps=2, random_state=0, progress=False).fit(*parts)


def same(one, other):
    assert one.shape == other.shape
    assert one.within == other.within
    for part in ("rows", "cols", "weights"):
        assert getattr(one, part).tolist() == getattr(other, part).tolist()


def test_of_pair_returns_links_in_either_order(graph, parts):
    kept, held = parts
    background = Background.of(kept, held)
    for pair in graph.links:
        trained, left_out = background.of_pair(*pair)
        same(trained, kept.links[pair])
        same(left_out, held.links[pair])
    trained, left_out = background.of_pair("b", "a")
    assert (trained.matrix() != kept.links["a", "b"].matrix().T).nnz == 0
    assert (left_out.matrix() != held.links["a", "b"].matrix().T).nnz == 0
    assert background.of_pair("a", "c") == (None, None)


def test_held_out_links_may_reverse_the_view_pair(graph):
    held = graph.with_links({("b", "a"): graph.links["a", "b"].transposed()})
    background = Background.of(graph, held)
    assert list(background.held_out) == [("a", "b")]
    same(background.held_out["a", "b"], graph.links["a", "b"])


def test_held_out_links_and_labels_are_optional(graph):
    background = Background.of(graph)
    assert background.held_out == {}
    assert background.of_pair("a", "b")[1] is None
    assert background.labels == {}


def test_labels_are_one_string_per_entity(graph):
    labels = Background.of(graph, labels=LABELS).labels
    assert labels["a"]["size"].tolist() == [str(n) for n in range(12)]
    with pytest.raises(InputError, match="labels: unknown view 'x'"):
        Background.of(graph, labels={"x": {"colour": ["red"]}})
    says = r"labels 'colour' of view 'b': expected 7 values, one per entity, got shape \(3,\)"
    with pytest.raises(InputError, match=says):
        Background.of(graph, labels={"b": {"colour": ["red"] * 3}})


@pytest.mark.parametrize("with_held", [True, False])
def test_links_and_labels_are_saved_and_loaded(model, parts, tmp_path, with_held):
    kept, held = parts
    saved = Background.of(kept, held if with_held else None, LABELS)
    model.save(tmp_path, background=saved)
    loaded = load_background(tmp_path)
    assert list(loaded.links) == list(saved.links)
    assert list(loaded.held_out) == list(saved.held_out)
    for pair, links in saved.links.items():
        same(loaded.links[pair], links)
    for pair, links in saved.held_out.items():
        same(loaded.held_out[pair], links)
    assert {name: values.tolist() for name, values in loaded.labels["a"].items()} == {
        "colour": LABELS["a"]["colour"],
        "size": [str(n) for n in range(12)],
    }


@pytest.mark.parametrize("weights", [[2.0] * 12, [1.0] * 5 + [3.0] * 7, [1.0] * 11 + [3.0]])
@pytest.mark.parametrize("n_held", [0, 4])
def test_links_are_written_and_read_in_chunks(model, tmp_path, monkeypatch, weights, n_held):
    monkeypatch.setattr("pmvge.model.background.CHUNK", 5)
    rows, cols = np.divmod(np.arange(0, 24, 2), 7)
    full = MultiViewGraph({"a": 12, "b": 7}, {("a", "b"): (rows, cols, weights)})
    links = full.links["a", "b"]
    held = full.with_links({("a", "b"): links.select(np.arange(n_held))})
    graph = full.with_links({("a", "b"): links.select(np.arange(n_held, 12))})
    model.save(tmp_path, background=Background.of(graph, held))
    loaded = load_background(tmp_path)
    for found, expected in ((loaded.links, graph.links), (loaded.held_out, held.links)):
        same(found["a", "b"], expected["a", "b"])
        assert found["a", "b"].equal_weights == expected["a", "b"].equal_weights


def test_equal_weights_are_not_expanded_in_memory(model, tmp_path, monkeypatch):
    """Memory of numpy arrays only; Arrow's columns are not counted."""
    monkeypatch.setattr("pmvge.model.background.CHUNK", 1000)
    n_links = 100_000
    rows, cols = np.divmod(np.arange(n_links, dtype=np.int32), 400)
    rows.flags.writeable = cols.flags.writeable = False
    background = Background.of(MultiViewGraph({"a": 250, "b": 400}, {("a", "b"): (rows, cols)}))
    model.save(tmp_path, background=background)
    load_background(tmp_path)  # imports are not measured
    peaks = []
    tracemalloc.start()
    try:
        model.save(tmp_path, background=background)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()
        loaded = load_background(tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert loaded.links["a", "b"].equal_weights
    same(loaded.links["a", "b"], background.links["a", "b"])
    assert max(peaks) < 5 * n_links


def test_load_background_returns_none_without_one(model, tmp_path):
    model.save(tmp_path)
    assert load_background(tmp_path) is None
    with pytest.raises(StorageError, match="not a pmvge model"):
        load_background(tmp_path / "gone")


def test_saving_without_background_removes_its_files(model, graph, tmp_path):
    model.save(tmp_path, background=Background.of(graph, labels=LABELS))
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} >= {"links", "labels"}
    model.save(tmp_path)
    names = {path.name.split("-")[0] for path in tmp_path.iterdir()}
    assert names == {"embeddings", "model.json"} | {"weights"}


@pytest.mark.parametrize("part", ["links-1", "labels-0"])
def test_damaged_files_are_refused(model, graph, tmp_path, part):
    model.save(tmp_path, background=Background.of(graph, labels=LABELS))
    (path,) = tmp_path.glob(f"{part}-*")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match=f"damaged model: {path.name}"):
        load_background(tmp_path)
