"""``pmvge embed``: rows of a table to vectors in a file, in chunks and atomically."""

import json

import numpy as np
import pytest
from pyarrow import parquet

from pmvge import PMvGE
from pmvge.errors import NotInductive, ParameterError, TableError
from pmvge.search import Embeddings
from pmvge.tables import rows_of
from pmvge.tables.columns import recipe


def embed(run, model, view, table, output, *flags):
    return run("embed", model, table, "--view", view, "-o", output, *flags)


def test_vectors_are_those_of_the_model(run, model, films, tmp_path):
    later, output = films / "later" / "new_users.csv", tmp_path / "new" / "vectors.parquet"
    printed = embed(run, model, "users", later, output)
    message = f"20 rows of users: vectors of 8 numbers in {output}, columns id and vector\n"
    assert printed.out == message
    found = Embeddings.load(output)
    loaded = PMvGE.load(model)
    ids, X = rows_of(loaded.tables_, "users", later)
    assert found.ids.tolist() == ids.tolist() == [f"u{n:05d}" for n in range(100, 120)]
    np.testing.assert_array_equal(found.vectors, loaded.embed("users", X))
    assert [p.name for p in output.parent.iterdir()] == [output.name]


def test_rows_of_the_training_have_the_vectors_of_the_training(run, model, films, tmp_path):
    embed(run, model, "films", films / "films.csv", tmp_path / "v.parquet")
    found, loaded = Embeddings.load(tmp_path / "v.parquet"), PMvGE.load(model)
    assert found.ids.tolist() == loaded.ids_["films"].tolist()
    np.testing.assert_allclose(found.vectors, loaded.embeddings_["films"], atol=1e-5)


def test_the_table_may_be_given_as_in_search(run, model, films, tmp_path):
    later = films / "later" / "new_users.csv"
    embed(run, model, "users", later, tmp_path / "a.parquet")
    common = ("embed", model, "--view", "users", "-o", tmp_path / "b.parquet")
    run(*common, "--rows", later)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    with pytest.raises(ParameterError, match="as TABLE or as --rows FILE, got both"):
        run(*common, later, "--rows", later)
    with pytest.raises(ParameterError, match="as TABLE or as --rows FILE, got none"):
        run(*common)


@pytest.mark.parametrize("name", [".", "./", "/"])
def test_a_folder_is_no_table(run, model, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match="is a folder; name its files, such as"):
        embed(run, model, "users", name, tmp_path / "v.parquet")


def test_the_file_is_plain_parquet(run, paper_model, papers, tmp_path):
    embed(run, paper_model, "papers", papers / "papers.csv", tmp_path / "v.parquet")
    read = parquet.read_table(tmp_path / "v.parquet").to_pydict()
    assert read["id"] == list(range(1000, 1350, 7))  # integers stay integers
    assert {len(vector) for vector in read["vector"]} == {8}


@pytest.mark.parametrize("view", ["users", "papers"])
def test_chunks_are_read_embedded_and_written_one_by_one(
    run, model, paper_model, films, papers, tmp_path, monkeypatch, view
):
    folder, table = {
        "users": (model, films / "users.csv"),
        "papers": (paper_model, papers / "papers.csv"),
    }[view]
    embed(run, folder, view, table, tmp_path / "at_once.parquet")
    sizes = []
    usual = PMvGE.embed

    def embed_and_count(self, view, X, *, ids):
        sizes.append(X.shape[0])
        return usual(self, view, X, ids=ids)

    monkeypatch.setattr(recipe, "BATCH", 7)
    monkeypatch.setattr(PMvGE, "embed", embed_and_count)
    embed(run, folder, view, table, tmp_path / "parts.parquet")
    assert max(sizes) == 7
    assert parquet.ParquetFile(tmp_path / "parts.parquet").num_row_groups == len(sizes) > 5
    at_once, parts = (
        Embeddings.load(tmp_path / f"{name}.parquet") for name in ("at_once", "parts")
    )
    assert parts.ids.tolist() == at_once.ids.tolist()
    assert parts.ids.dtype == at_once.ids.dtype
    np.testing.assert_allclose(parts.vectors, at_once.vectors, atol=1e-5)


def test_a_failure_in_a_late_chunk_leaves_the_old_file(
    run, model, films, table, read, tmp_path, monkeypatch
):
    output = tmp_path / "v.parquet"
    embed(run, model, "users", films / "later" / "new_users.csv", output)
    before = output.read_bytes()
    rows = [tuple(row.values()) for row in read(films / "users.csv")]
    invalid = table(tmp_path / "t" / "x.csv", ("user_id", "age", "country", "likes"), rows)
    with invalid.open("a", newline="") as stream:
        stream.write(",33,de,I have no id\r\n")
    monkeypatch.setattr(recipe, "BATCH", 10)
    with pytest.raises(TableError, match="empty id"):
        embed(run, model, "users", invalid, output)
    assert output.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t", "v.parquet"]


def test_missing_and_unknown_values_are_one_note_per_column(run, model, table, tmp_path):
    columns = ("user_id", "age", "country", "likes")
    rows = [(f"n{i}", "" if i % 2 else 30, "atlantis", "I like dragon") for i in range(10)]
    path = table(tmp_path / "new.csv", columns, rows)
    printed = embed(run, model, "users", path, tmp_path / "v.parquet", "--json")
    notes = [
        "view users: 5 values of 'age' are missing: filled in",
        "view users: 10 values of 'country' were not seen in training: treated as none of the"
        " known values",
        "view users: 0 known from training, 10 new",
    ]
    assert printed.err.splitlines() == [f"note: {note}" for note in notes]
    assert json.loads(printed.out) == {
        "output": str(tmp_path / "v.parquet"),
        "rows": 10,
        "n_components": 8,
        "notes": notes,
    }
    assert np.isfinite(Embeddings.load(tmp_path / "v.parquet").vectors).all()


def test_rows_without_the_id_column_are_numbered(run, model, table, tmp_path):
    rows = [(30, "de", "I like dragon"), (40, "fr", "I like robot")]
    path = table(tmp_path / "new.csv", ("age", "country", "likes"), rows)
    embed(run, model, "users", path, tmp_path / "v.parquet")
    assert Embeddings.load(tmp_path / "v.parquet").ids.tolist() == [0, 1]


def test_known_entities_of_a_view_without_features_have_vectors(run, model, table, tmp_path):
    old = table(tmp_path / "old.csv", ("genre",), [("western",), ("crime",)])
    embed(run, model, "genre", old, tmp_path / "v.parquet")
    loaded = PMvGE.load(model)
    at = [loaded.ids_["genre"].tolist().index(name) for name in ("western", "crime")]
    found = Embeddings.load(tmp_path / "v.parquet")
    np.testing.assert_array_equal(found.vectors, loaded.embeddings_["genre"][at])
    new = table(tmp_path / "new.csv", ("genre",), [("opera",)])
    with pytest.raises(NotInductive, match="such as 'opera'"):
        embed(run, model, "genre", new, tmp_path / "v.parquet")


def test_the_output_is_a_parquet_file(run, model, films, tmp_path):
    with pytest.raises(ParameterError, match=r"expected a name that ends in \.parquet, got"):
        embed(run, model, "films", films / "films.csv", tmp_path / "vectors.csv")


def test_views_and_columns_are_checked(run, model, films, table, tmp_path):
    with pytest.raises(TableError, match="unknown view 'film': expected one of 'films'"):
        embed(run, model, "film", films / "films.csv", tmp_path / "v.parquet")
    path = table(tmp_path / "new.csv", ("user_id", "aged", "town"), [("n", 1, 2)])
    with pytest.raises(TableError, match=r"no column 'age'.*'aged'"):  # nor any other feature
        embed(run, model, "users", path, tmp_path / "v.parquet")
    assert not (tmp_path / "v.parquet").exists()


def test_columns_that_a_table_does_not_have_are_missing_values(
    run, model, films, table, read, tmp_path
):
    rows = read(films / "later" / "new_users.csv")
    columns = ("user_id", "aged", "country", "likes")
    part = [(r["user_id"], r["age"], r["country"], r["likes"]) for r in rows]
    path = table(tmp_path / "new.csv", columns, part)
    printed = embed(run, model, "users", path, tmp_path / "v.parquet")
    assert "note: view users: no column 'age': all its values count as missing" in printed.err
    assert "did you mean 'aged'?" in printed.err
    empty = table(tmp_path / "empty.csv", ("user_id", "age", "country", "likes"),
                  [(row[0], "", *row[2:]) for row in part])  # fmt: skip
    embed(run, model, "users", empty, tmp_path / "w.parquet")
    same = Embeddings.load(tmp_path / "v.parquet"), Embeddings.load(tmp_path / "w.parquet")
    np.testing.assert_array_equal(same[0].vectors, same[1].vectors)
