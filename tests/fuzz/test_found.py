"""Regression tests for bugs that fuzzing has found, each with a minimal input."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from fuzzing.target import write_folder
from fuzzing.targets import TARGETS
from fuzzing.targets.folders import repair
from safetensors.torch import load, save

from pmvge import PMvGE
from pmvge.datasets import load_cora, load_vectors
from pmvge.errors import GraphError, InputError, PmvgeError, StorageError, TableError
from pmvge.experiments import recipe as recipes
from pmvge.experiments.result_cache import cached
from pmvge.tables import LinkTable, Project, Source, ViewTable, read_project, read_tables
from pmvge.tables.columns.casts import check_column
from pmvge.training import Checkpoints, saved_seed
from pmvge.training.checkpoints import DamagedCheckpoint


def damaged(tmp_path, name, change):
    """Write the files of a target with a changed manifest and valid checksums."""
    files = dict(TARGETS[name].valid)
    kind = "checkpoint" if name == "checkpoint" else "model"
    manifest = json.loads(files[f"{kind}.json"])
    change(manifest)
    files[f"{kind}.json"] = json.dumps(manifest).encode()
    repair(kind)(files)
    write_folder(tmp_path, files)
    return tmp_path


def setting(*path, to):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = to

    return change


# -- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PmvgeError, GraphError, StorageError])
def test_messages_are_one_line(kind):
    assert str(kind("view a\nb: no\r\nsuch")) == "view a b: no such"


def test_long_names_are_truncated_in_messages():
    with pytest.raises(TableError) as caught:
        check_column("x.csv", "a" * 5000, ["b" * 5000] * 30)
    assert len(str(caught.value)) < 1500


# -- text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a." * 30_000 + "b = 1", "x = " + "[" * 30_000])
def test_deeply_nested_toml_is_refused(tmp_path, text):
    (tmp_path / "pmvge.toml").write_text(text)
    with pytest.raises(TableError, match=r"pmvge\.toml: not valid TOML: "):
        read_project(tmp_path / "pmvge.toml")
    with pytest.raises(InputError, match="recipe 'x': not valid TOML: "):
        recipes.parse("x", text)


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (2**70, "size: expected a positive integer up to 2,147,483,647, got 118"),
        (2**31 - 1, "2,147,483,65. columns are too many for dense rows; set sparse = true"),
    ],
)
def test_the_number_of_hashed_columns_is_limited(tmp_path, size, says):
    files = dict(TARGETS["toml"].valid)
    text = files["pmvge.toml"].decode().replace("size = 16", f"size = {size}")
    text = text.replace('labels = ["label"]', 'labels = ["label"]\nsparse = false')
    write_folder(tmp_path, files | {"pmvge.toml": text.encode()})
    with pytest.raises(TableError, match=says):
        read_tables(read_project(tmp_path / "pmvge.toml"))


@pytest.mark.parametrize(
    ("database", "query"),
    [
        (None, "SELECT * FROM 'seen.csv'; COPY (SELECT 1) TO 'new.csv'"),
        (None, "COPY (SELECT 1) TO 'new.csv'"),
        (None, ""),
        ("shop.duckdb", "SELECT * FROM seen; COPY (SELECT 1) TO 'new.csv'"),
        ("shop.sqlite", "VACUUM INTO 'new.db'"),
        ("shop.sqlite", "ATTACH DATABASE 'new.db' AS other"),
    ],
)
def test_queries_cannot_write_files(tmp_path, database, query, monkeypatch):
    for name in ("csv", "duckdb", "sqlite"):
        write_folder(tmp_path, TARGETS[name].valid)
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    table = LinkTable(Source(database=database, query=query), ("user", "film"))
    views = {"user": ViewTable(), "film": ViewTable()}
    with pytest.raises(TableError):
        read_tables(Project(views, {("user", "film"): table}, folder=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_notes_of_a_recipe_must_be_strings():
    with pytest.raises(InputError, match="recipe 'x': notes: expected a list of strings, got"):
        recipes.parse("x", 'title = "t"\nexperiment = "sbm"\nsummary = "s"\nnotes = [1]\n')


def test_cora_ids_beyond_64_bits_are_refused(tmp_path):
    (tmp_path / "cora.content").write_text("9223372036854775808\t0\t1\tTheory\n7\t1\t0\tRules\n")
    (tmp_path / "cora.cites").write_text("7\t7\n")
    with pytest.raises(InputError, match="expected files in Cora's format"):
        load_cora(tmp_path)


def test_long_values_are_truncated_in_messages(tmp_path):
    (tmp_path / "v.txt").write_text("the 1 " + "[" * 30_000 + "\n")
    with pytest.raises(InputError, match="line 1: expected numbers") as caught:
        load_vectors(tmp_path / "v.txt", ["the"])
    assert len(str(caught.value)) < 1000


# -- archives -------------------------------------------------------------------------------


def test_a_file_that_is_no_archive_is_refused_in_one_line(tmp_path):
    (tmp_path / "cora.tgz").write_bytes(b"x" * 2000)
    with pytest.raises(InputError, match="not a zip or tar archive, or a damaged one: ") as caught:
        load_cora(tmp_path)
    assert isinstance(caught.value.__cause__.__cause__, tarfile.TarError)
    assert "\n" not in str(caught.value)


def test_damaged_cached_arrays_are_computed_again(tmp_path):
    def make():
        return {"a": np.arange(3)}

    cached(tmp_path, "x", make)
    (path,) = tmp_path.iterdir()
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
    data = bytearray(path.read_bytes())
    data[8] = data[start + 10] = (
        99  # the compression method, in the file header and in the directory
    )
    path.write_bytes(data)
    assert cached(tmp_path, "x", make)[0]["a"].tolist() == [0, 1, 2]
    np.save(path.with_suffix(".npy"), np.arange(3))  # one array instead of an archive
    path.with_suffix(".npy").replace(path)
    assert cached(tmp_path, "x", make)[0]["a"].tolist() == [0, 1, 2]
    np.savez(path, a=np.arange(2), seconds=np.arange(2.0))
    assert cached(tmp_path, "x", make)[0]["a"].tolist() == [0, 1, 2]


# -- models ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (setting("views", "a", "encoder", "spec", "hidden_sizes", to=[2**34]), "its file has"),
        (setting("views", "t", "n", to=2**40), "its file has"),
        (setting("views", "a", "row_shape", to=[2**20, 2**20]), "its file has"),
        (setting("n_components", to=2**40), "its file has"),
        (setting("n_components", to=True), "expected a positive integer, got True"),
        (setting("alpha", 0, "log_alpha", to=float("nan")), "expected a finite number, got nan"),
        (setting("history", 0, "loss", to="x"), "expected a record of numbers"),
        (setting("files", "weights.safetensors", "name", to="a\0b"), "its list of files"),
        (setting("files", "weights.safetensors", "name", to="\ud800"), "its list of files"),
        (setting("files", "weights.safetensors", "name", to="a" * 5000), "File name too long"),
        (setting("parameters", "encoder", to={"module": "x"}), "damaged model"),
    ],
)
def test_manifest_values_are_checked_before_the_encoders_are_built(tmp_path, change, says):
    folder = damaged(tmp_path, "model.json", change)
    with pytest.raises(StorageError, match=says) as caught:
        PMvGE.load(folder)
    assert len(str(caught.value)) < 1000


def test_weights_that_are_not_finite_are_refused(tmp_path):
    files = dict(TARGETS["model.json"].valid)
    name = next(name for name in files if name.startswith("weights"))
    tensors = load(files[name])
    tensors["similarity.theta"] = torch.tensor(torch.nan)
    files[name] = save(tensors)
    repair("model")(files)
    write_folder(tmp_path, files)
    with pytest.raises(StorageError, match="weights of 'similarity' are not finite"):
        PMvGE.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        setting("views", "users", "id", to=3),
        setting("views", "users", "ids", to="words"),
        setting("views", "users", "recipe", "blocks", to=[]),
        setting("views", "users", "recipe", "blocks", 0, "block", to="magic"),
        setting("views", "users", "recipe", "blocks", 0, "columns", to=[1]),
        setting("views", "users", "recipe", "blocks", 0, "kinds", to=["numeric"]),
        setting("views", "users", "recipe", "blocks", 0, "scalings", 0, to=[1.0, 2.0, "x", True]),
        setting("views", "users", "recipe", "sparse", to="yes"),
        setting("links", 0, "pair", to=["users"]),
        setting("links", 0, "columns", to=None),
        setting("links", 0, "pair", to=["users", "nobody"]),
        setting("links", 0, "aggregate", to="mean"),
        setting("links", 0, "symmetrize", to=1),
        setting("links", to=3),
        setting("views", to=None),
    ],
)
def test_saved_table_descriptions_are_checked(tmp_path, change):
    folder = damaged(tmp_path, "model tables", lambda manifest: change(manifest["tables"]))
    with pytest.raises(StorageError, match="damaged model: "):
        PMvGE.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        setting("links", to=3.5),
        setting("links", 0, "shape", to=[2**40, 2**40]),
        setting("links", 0, "shape", to=[2, 2]),
        setting("labels", to=None),
    ],
)
def test_saved_links_and_labels_are_checked(tmp_path, change):
    folder = damaged(tmp_path, "links", lambda manifest: change(manifest["background"]))
    with pytest.raises(StorageError, match=r"damaged model: (links|labels)"):
        PMvGE.load(folder)


@pytest.mark.parametrize("seed", [None, "", [], "x"])
def test_the_seed_of_a_checkpoint_is_checked(tmp_path, seed):
    folder = damaged(tmp_path, "checkpoint", setting("seed", to=seed))
    with pytest.raises(StorageError, match="damaged checkpoint: invalid seed: "):
        saved_seed(folder)


def test_a_checkpoint_without_fingerprint_is_refused(tmp_path):
    folder = damaged(tmp_path, "checkpoint", lambda content: content.pop("fingerprint"))
    with pytest.raises(StorageError, match="belongs to other data"):
        Checkpoints(folder, None, None, "mark", 0).read()


def test_a_checkpoint_without_state_is_replaced_by_the_previous_one(tmp_path):
    folder = damaged(tmp_path, "checkpoint", lambda content: content["files"].clear())
    mark = json.loads(TARGETS["checkpoint"].valid["checkpoint.json"])["fingerprint"]
    checkpoints = Checkpoints(folder, None, None, mark, 0)
    says = "damaged checkpoint: its manifest lists no state.safetensors; using the previous"
    with pytest.warns(DamagedCheckpoint, match=says):
        content, tensors = checkpoints.read()
    before = json.loads((folder / "checkpoint-before.json").read_text())
    assert content == before
    assert tensors
    checkpoints.restore_previous()
    assert checkpoints.read()[0] == before  # without a warning


def test_a_first_checkpoint_without_state_is_refused(tmp_path):
    folder = damaged(tmp_path, "checkpoint", lambda content: content["files"].clear())
    (folder / "checkpoint-before.json").unlink()
    with pytest.raises(StorageError, match="its manifest lists no state"):
        Checkpoints(folder, None, None, "mark", 0).read()


# -- feature cache --------------------------------------------------------------------------


def test_damaged_cache_metadata_is_ignored(tmp_path):
    write_folder(tmp_path, TARGETS["csv"].valid)
    project, spill = read_project(tmp_path / "pmvge.toml"), tmp_path / "spill"
    first = read_tables(project, spill=spill).graph.views["films"]
    (path,) = spill.glob("*.npy.json")
    note = json.loads(path.read_text())
    digest = hashlib.sha256(first.tobytes()).hexdigest()
    for change in (setting("recipe", to=1.5), setting("recipe", "blocks", 0, "kinds", to=[]),
                   setting("missing", to=[])):  # fmt: skip
        changed = json.loads(json.dumps(note))
        change(changed)
        path.write_text(json.dumps(changed))
        again = read_tables(project, spill=spill).graph.views["films"]
        assert hashlib.sha256(again.tobytes()).hexdigest() == digest
        note = json.loads(path.read_text())
