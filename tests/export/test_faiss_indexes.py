"""FAISS indexes against search."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from pmvge import PMvGE
from pmvge.errors import ParameterError
from pmvge.export import export_faiss
from pmvge.export.faiss_indexes import _build
from pmvge.search import top_k

faiss = pytest.importorskip("faiss")


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_an_index_ranks_as_search_does(model: PMvGE, tmp_path: Path, kind: str) -> None:
    paths = export_faiss(model, tmp_path, index=kind)
    listed = json.loads((tmp_path / "indexes.json").read_text())["indexes"]
    found = {(entry["queries"], entry["candidates"]): entry for entry in listed}
    assert {*found} == {
        ("users", "films"),
        ("films", "users"),
        ("films", "tags"),
        ("tags", "films"),
    }
    assert {path.name for path in paths} == {path.name for path in tmp_path.iterdir()}
    for (view, among), entry in found.items():
        index = faiss.read_index(str(tmp_path / entry["file"]))
        table = parquet.read_table(tmp_path / entry["ids"])
        assert table["position"].to_pylist() == list(range(len(model.ids_[among])))
        g, at = index.search(model.vectors(view, among=among), 3)
        ids, expected = model.search(view, among=among, k=3, by="similarity")
        np.testing.assert_array_equal(np.array(table["id"].to_pylist())[at], ids)
        np.testing.assert_allclose(g, expected, rtol=1e-4, atol=1e-5)
        assert entry["recall@10"] == 1
        assert entry["log_alpha"] == model.log_alpha_of(view, among)
        assert entry["width"] == index.d
    films = parquet.read_table(tmp_path / "films.ids.parquet")
    assert films["name"].to_pylist()[0] == "Film 0"


def test_an_unknown_kind_is_an_error(model: PMvGE, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="unknown index 'ivf': expected one of 'flat', 'hnsw'"):
        export_faiss(model, tmp_path, index="ivf")


def test_hnsw_finds_partners_whose_biases_differ() -> None:
    rng = np.random.default_rng(0)
    y, z, ones = rng.normal(size=(3_000, 12)) * 0.3, rng.normal(size=(100, 12)) * 0.3, np.ones
    C = np.column_stack([y, ones(3_000), 1.5 * rng.normal(size=3_000)]).astype(np.float32)
    queries = np.column_stack([z, rng.normal(size=100), ones(100)]).astype(np.float32)
    index = _build(faiss, C, "hnsw")
    stored = faiss.downcast_index(index.index).reconstruct_n(0, 3_000)
    np.testing.assert_array_equal(stored[:, :14], C)
    norms = np.linalg.norm(stored, axis=1)
    np.testing.assert_allclose(norms, norms[0], rtol=1e-5)  # long vectors are not hubs
    g, found = index.search(queries, 10)
    best, expected = top_k(queries, C, 10)
    hits = [len(np.intersect1d(*pair)) for pair in zip(found, best, strict=True)]
    assert np.mean(hits) / 10 > 0.998
    np.testing.assert_allclose(g[:, 0], expected[:, 0], rtol=1e-3)
