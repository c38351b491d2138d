"""Parquet tables, read by pyarrow, DuckDB and LanceDB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from pmvge import MultiViewGraph, PMvGE
from pmvge.export import export_parquet


@pytest.fixture(scope="module")
def folder(model: PMvGE, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    paths = export_parquet(model, folder)
    assert [path.name for path in paths] == [f"{view}.parquet" for view in model.view_names_]
    return folder


def vectors(table: pyarrow.Table, column: str) -> Any:
    return np.array(table[column].to_pylist(), np.float32)


def test_tables_have_ids_names_labels_and_vectors(model: PMvGE, folder: Path) -> None:
    users = parquet.read_table(folder / "users.parquet")
    assert users.column_names == [
        "view", "id", "x", "y", "vector", "query_films", "candidate_films", "ID_", "x_",
    ]  # fmt: skip
    assert users["id"].to_pylist() == model.ids_["users"].tolist()
    assert users["ID_"].to_pylist()[:3] == ["red", "blue", None]
    assert users.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 4)
    np.testing.assert_array_equal(vectors(users, "vector"), model.embeddings_["users"])
    films = parquet.read_table(folder / "films.parquet")
    assert films["name"].to_pylist()[:2] == ["Film 0", "Film 1"]
    for side in ("query", "candidate"):
        for other in ("users", "tags"):
            expected = model.vectors("films", among=other, side=side)
            np.testing.assert_array_equal(vectors(films, f"{side}_{other}"), expected)
    places = np.column_stack([users["x"], users["y"]])
    assert np.isfinite(places).all()
    assert np.ptp(places, axis=0).min() > 0


def test_duckdb_ranks_as_search_does(model: PMvGE, folder: Path) -> None:
    query = f"""
        SELECT f.id, list_inner_product(u.query_films, f.candidate_users) AS g
        FROM '{folder}/users.parquet' u, '{folder}/films.parquet' f
        WHERE u.id = 'u7' ORDER BY g DESC LIMIT 5
    """
    found = duckdb.sql(query).fetchall()
    ids, g = model.search("users", ids=["u7"], among="films", k=5, by="similarity")
    assert [row[0] for row in found] == ids[0].tolist()
    np.testing.assert_allclose([row[1] for row in found], g[0], rtol=1e-5)


def test_duckdb_casts_vectors_to_arrays(model: PMvGE, folder: Path) -> None:
    query = f"""
        SELECT array_cosine_similarity(a.vector::FLOAT[4], b.vector::FLOAT[4])
        FROM '{folder}/users.parquet' a, '{folder}/users.parquet' b
        WHERE a.id = 'u0' AND b.id = 'u1'
    """
    ((found,),) = duckdb.sql(query).fetchall()
    a, b = model.embed("users", ids=["u0", "u1"])
    assert found == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)


def test_duckdb_reads_all_views_as_one_table(model: PMvGE, folder: Path) -> None:
    query = f"SELECT view, count(*) FROM read_parquet('{folder}/*.parquet', union_by_name = true)"
    found = dict(duckdb.sql(query + " GROUP BY view").fetchall())
    assert found == {view: len(ids) for view, ids in model.ids_.items()}


def test_lancedb_ranks_as_search_does(model: PMvGE, folder: Path, tmp_path: Path) -> None:
    import lancedb

    table = parquet.read_table(folder / "films.parquet")
    films = lancedb.connect(str(tmp_path)).create_table("films", table)
    query = model.vectors("users", ids=["u7"], among="films")[0]
    near = films.search(query, vector_column_name="candidate_users").distance_type("dot").limit(5)
    ids, _ = model.search("users", ids=["u7"], among="films", k=5)
    assert near.to_arrow()["id"].to_pylist() == ids[0].tolist()


def test_the_map_can_be_left_out(model: PMvGE, tmp_path: Path) -> None:
    export_parquet(model, tmp_path, coordinates=False)
    assert "x" not in parquet.read_table(tmp_path / "tags.parquet").column_names


def test_hostile_ids_and_views(fit: Callable[..., PMvGE], tmp_path: Path) -> None:
    view, names = "../<b>é", ["<script>", "🎬", "x" * 10_000]
    graph = MultiViewGraph(
        {view: 3, "b": 3}, {(view, "b"): np.eye(3)}, ids={view: names, "b": [1, 2, 3]}
    )
    model = PMvGE(2, max_steps=5, progress=False, random_state=0).fit(graph, hold_out=0)
    paths = export_parquet(model, tmp_path / "out")
    assert {path.parent for path in paths} == {tmp_path / "out"}
    table = parquet.read_table(paths[model.view_names_.index(view)])
    assert table["id"].to_pylist() == names
    assert {*table["view"].to_pylist()} == {view}


def test_a_label_hides_a_column_of_the_same_name(fit: Callable[..., PMvGE], tmp_path: Path) -> None:
    model = fit()
    n = len(model.ids_["tags"])
    model.label({"tags": {"kind": ["label"] * n}}, columns={"tags": {"kind": ["column"] * n}})
    export_parquet(model, tmp_path, coordinates=False)
    assert parquet.read_table(tmp_path / "tags.parquet")["kind"].to_pylist() == ["label"] * n
