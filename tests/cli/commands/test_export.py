"""``pmvge export``: files for other tools."""

import json

import numpy as np
import pytest
from pyarrow import parquet

from pmvge import PMvGE


def test_parquet_has_a_table_for_each_view(run, model, tmp_path):
    printed = run("export", model, "--to", "parquet", "-o", tmp_path / "out", "--no-map")
    loaded = PMvGE.load(model)
    for view, vectors in loaded.embeddings_.items():
        path = tmp_path / "out" / f"{view}.parquet"
        assert f"{path} (" in printed.out
        table = parquet.read_table(path)
        assert table["id"].to_pylist() == loaded.ids_[view].tolist()
        np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), vectors)
        assert "x" not in table.column_names


def test_the_default_folder_is_export_and_json_lists_the_files(run, model, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.chdir(tmp_path)
    printed = json.loads(run("export", model, "--to", "faiss", "--index", "hnsw", "--json").out)
    assert printed["target"] == "faiss"
    assert {tmp_path / file for file in printed["files"]} == {*(tmp_path / "export").iterdir()}


@pytest.mark.slow
def test_onnx_has_a_recipe_of_the_columns(run, model, tmp_path):
    pytest.importorskip("onnxscript")
    run("export", model, "--to", "onnx", "-o", tmp_path)
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    loaded = PMvGE.load(model)
    for view, entry in recipe["views"].items():
        if entry is not None:
            width = sum(block["width"] for block in entry["columns"])
            assert [width] == entry["input"]["shape"], view
            assert (tmp_path / entry["encoder"]).is_file()
            assert loaded.describe()["views"][view]["features"].startswith(str(width))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--to", "onx"), "--to: unknown target 'onx': expected one of 'onnx', 'parquet', 'faiss'"),
        (("--to", "faiss", "--index", "ivf"), "export to FAISS: index: unknown index 'ivf'"),
        ((), "Missing option '--to'"),
    ],
)
def test_bad_options_are_one_line(refused, model, tmp_path, arguments, says):
    assert says in refused("export", model, *arguments, "-o", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_a_file_is_an_error(refused, model, tmp_path):
    (tmp_path / "file").touch()
    message = refused("export", model, "--to", "parquet", "-o", tmp_path / "file")
    assert f"{tmp_path / 'file'}: cannot be written" in message
