"""The training links, held-out links and labels that are saved with a model."""

import hashlib
import json
import tracemalloc

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from pmvge import MultiViewGraph, PMvGE, storage
from pmvge.errors import GraphError, StorageError
from pmvge.graph import hold_out_links
from pmvge.model import TrainingLinks
from pmvge.model.saving.links_files import Texts, links_from_files, links_to_files
from pmvge.storage import DamagedValue

LABELS = {"a": {"colour": ["red", "", "blaü"] * 4, "size": list(range(12))}}
TEXTS = {"a": {name: np.array(values, dtype=str) for name, values in LABELS["a"].items()}}


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
    return (
        PMvGE(2, effects="none", max_steps=2, random_state=0, progress=False)
        .fit(*parts)
        .label(LABELS)
    )


def same(one, other):
    assert one.shape == other.shape
    assert one.within == other.within
    for part in ("rows", "cols", "weights"):
        assert getattr(one, part).tolist() == getattr(other, part).tolist()


def write(folder, links, labels):
    """Write the files of links and labels; return the entry of the manifest and the paths."""
    content, writers = links_to_files(links, Texts(labels, {}, {}))
    paths = {name: folder / name for name in writers}
    for name, writer in writers.items():
        writer(paths[name])
    return json.loads(json.dumps(content)), paths


# -- with a model ---------------------------------------------------------------------------


def test_links_and_labels_are_saved_and_loaded(model, parts, tmp_path):
    model.save(tmp_path)
    loaded = PMvGE.load(tmp_path)
    for found, expected in zip(
        (loaded.links_.training, loaded.links_.held_out), parts, strict=True
    ):
        assert list(found) == list(expected.links)
        for pair, links in expected.links.items():
            same(found[pair], links)
    assert {name: values.tolist() for name, values in loaded.labels_["a"].items()} == {
        "colour": LABELS["a"]["colour"],
        "size": [str(n) for n in range(12)],
    }


def test_loading_hashes_each_file_once(model, tmp_path, monkeypatch):
    model.save(tmp_path)
    hashed, sha256 = [], storage._sha256

    def record(path):
        hashed.append(path.name)
        return sha256(path)

    monkeypatch.setattr(storage, "_sha256", record)
    assert PMvGE.load(tmp_path).links_ is not None
    files = {path.name for path in tmp_path.iterdir()} - {"model.json", "model_card.md"}
    assert {name.split("-")[0] for name in files} == {"weights", "embeddings", "links", "labels"}
    assert sorted(hashed) == sorted(files)


def test_links_may_be_left_out(model, tmp_path):
    model.save(tmp_path)
    model.save(tmp_path, links=False)
    names = {path.name.split("-")[0] for path in tmp_path.iterdir()}
    assert names == {"embeddings", "model.json", "model_card.md", "weights", "labels"}
    loaded = PMvGE.load(tmp_path)
    assert loaded.links_ is None
    assert loaded.labels_["a"]["colour"].tolist() == LABELS["a"]["colour"]
    loaded.save(tmp_path / "again")  # there are none to save
    assert PMvGE.load(tmp_path / "again").links_ is None


def test_a_model_of_the_first_format_may_have_no_links(model, tmp_path):
    model.save(tmp_path)
    path = tmp_path / "model.json"
    manifest = json.loads(path.read_text())
    for key in ("checksum", "background", "family", "given_ids"):
        del manifest[key]
    manifest["format"] = 1
    text = json.dumps(manifest, sort_keys=True)
    path.write_text(json.dumps(manifest | {"checksum": hashlib.sha256(text.encode()).hexdigest()}))
    loaded = PMvGE.load(tmp_path)
    assert (loaded.links_, loaded.labels_) == (None, {})


@pytest.mark.parametrize("part", ["links-1", "labels-0"])
def test_damaged_files_are_refused(model, tmp_path, part):
    model.save(tmp_path)
    (path,) = tmp_path.glob(f"{part}-*")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match=f"damaged model: {path.name}"):
        PMvGE.load(tmp_path)


# -- files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[2.0] * 12, [1.0] * 5 + [3.0] * 7, [1.0] * 11 + [3.0]])
@pytest.mark.parametrize("n_held", [None, 0, 4])
def test_links_are_written_and_read_in_chunks(tmp_path, monkeypatch, weights, n_held):
    monkeypatch.setattr("pmvge.model.saving.links_files.CHUNK", 5)
    rows, cols = np.divmod(np.arange(0, 24, 2), 7)
    links = MultiViewGraph({"a": 12, "b": 7}, {("a", "b"): (rows, cols, weights)}).links["a", "b"]
    first = n_held or 0
    held = {} if n_held is None else {("a", "b"): links.select(np.arange(first))}
    saved = TrainingLinks({("a", "b"): links.select(np.arange(first, 12))}, held)
    loaded, (labels, _, _) = links_from_files(*write(tmp_path, saved, {}), {"a": 12, "b": 7})
    assert labels == {}
    assert loaded.held_out.keys() == held.keys()
    for found, expected in ((loaded.training, saved.training), (loaded.held_out, held)):
        for pair, part in expected.items():
            same(found[pair], part)
            assert found[pair].equal_weights == part.equal_weights


def test_equal_weights_are_not_expanded_in_memory(tmp_path, monkeypatch):
    """Memory of numpy arrays only; Arrow's columns are not counted."""
    monkeypatch.setattr("pmvge.model.saving.links_files.CHUNK", 1000)
    n_links = 100_000
    rows, cols = np.divmod(np.arange(n_links, dtype=np.int32), 400)
    rows.flags.writeable = cols.flags.writeable = False
    graph = MultiViewGraph({"a": 250, "b": 400}, {("a", "b"): (rows, cols)})
    saved = TrainingLinks(graph.links)
    links_from_files(*write(tmp_path, saved, {}), graph.sizes)  # imports are not measured
    peaks = []
    tracemalloc.start()
    try:
        content, paths = write(tmp_path, saved, {})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()
        loaded, _ = links_from_files(content, paths, graph.sizes)
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert loaded.training["a", "b"].equal_weights
    same(loaded.training["a", "b"], saved.training["a", "b"])
    assert max(peaks) < 5 * n_links


LINKS = {"row": [0, 1], "column": [1, 2], "weight": [1.0, 2.0], "held_out": [False, True]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": None}, "links-0.parquet: expected columns .*'weight'.*, got"),
        ({"more": [1, 2]}, "links-0.parquet: expected columns .*, got .*'more'"),
        ({"row": [0.0, 1.0]}, "column 'row': unexpected type double"),
        ({"row": ["0", "1"]}, "column 'row': unexpected type string"),
        ({"column": [b"0", b"1"]}, "column 'column': unexpected type binary"),
        ({"weight": [1, 2]}, "column 'weight': unexpected type int64"),
        ({"held_out": [0, 1]}, "column 'held_out': unexpected type int64"),
        ({"row": [0, None]}, "links-0.parquet: expected no empty values, got 1"),
        ({"held_out": [None, None]}, "column 'held_out': unexpected type null"),
        ({"row": [-1, 1]}, "links: "),
        ({"column": [1, 7]}, "held-out links: "),
        ({"weight": [np.nan, 1.0]}, "links: "),
        ({"weight": [1.0, -1.0]}, "held-out links: "),
    ],
)
def test_columns_of_links_are_checked(graph, tmp_path, changes, message):
    content, paths = write(tmp_path, TrainingLinks({("a", "b"): graph.links["a", "b"]}), {})
    columns = {k: v for k, v in (LINKS | changes).items() if v is not None}
    parquet.write_table(pyarrow.table(LINKS), paths["links-0.parquet"])
    links_from_files(content, paths, graph.sizes)  # the table without the changes is valid
    parquet.write_table(pyarrow.table(columns), paths["links-0.parquet"])
    with pytest.raises((DamagedValue, GraphError), match=message):
        links_from_files(content, paths, graph.sizes)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"colour": ["red"] * 11}, "labels-0.parquet: expected 12 labels, one per entity, got 11"),
        ({"colour": list(range(12))}, "column 'colour': unexpected type int64"),
        ({"colour": [None, *["red"] * 11]}, "expected no empty values, got 1"),
    ],
)
def test_columns_of_labels_are_checked(graph, tmp_path, columns, message):
    content, paths = write(tmp_path, None, TEXTS)
    parquet.write_table(pyarrow.table(columns), paths["labels-0.parquet"])
    with pytest.raises(DamagedValue, match=message):
        links_from_files(content, paths, graph.sizes)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100])
@pytest.mark.parametrize("name", ["links-0.parquet", "labels-0.parquet"])
def test_files_that_are_not_parquet_are_refused(graph, tmp_path, name, data):
    content, paths = write(tmp_path, TrainingLinks(graph.links), TEXTS)
    paths[name].write_bytes(data)
    with pytest.raises(DamagedValue, match=name):
        links_from_files(content, paths, graph.sizes)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("links",), None, "links: expected a list, got None"),
        (("links", 0), 3, "expected an object with 'pair', got 3"),
        (("links", 0, "pair"), ["a"], r"pair: expected 2 strings, got \['a'\]"),
        (("links", 0, "pair"), ["a", 1], "pair: expected a string, got 1"),
        (("links", 0, "pair"), ["a", "x"], "links: unknown view 'x'"),
        (("links", 0, "shape"), [12, 8], r"expected shape \(12, 7\), got \[12, 8\]"),
        (("links", 0, "held_out"), 1, "held_out: expected true or false, got 1"),
        (("links", 0, "file"), "x", "its manifest lists no x"),
        (("labels",), {}, "labels: expected a list, got {}"),
        (("labels", 0, "view"), "x", "labels: unknown view 'x'"),
        (("labels", 0, "view"), 1, "view: expected a string, got 1"),
    ],
)
def test_entries_of_the_manifest_are_checked(graph, tmp_path, path, value, message):
    content, paths = write(tmp_path, TrainingLinks({("a", "b"): graph.links["a", "b"]}), TEXTS)
    links_from_files(content, paths, graph.sizes)
    entry = content
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    with pytest.raises(DamagedValue, match=message):
        links_from_files(content, paths, graph.sizes)
