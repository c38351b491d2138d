"""Folders with a manifest and checksums, and single files, replaced atomically."""

import errno
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pmvge import storage
from pmvge.errors import GraphError, ParameterError, StorageError


def commit(folder, value, kind="model", *, keep=False):
    """Commit a number in the manifest and in two files."""
    parts = {
        "weights.safetensors": storage.tensors_writer({"w": torch.full((50,), float(value))}),
        "embeddings-a.parquet": lambda path: path.write_text(f"vectors {value}"),
    }
    if kind == "checkpoint":
        parts = {"state.safetensors": parts["weights.safetensors"]}
    storage.commit(folder, kind, {"value": value}, parts, keep=keep)


def read(folder, kind="model"):
    """Return the manifest and the paths of the files."""
    return storage.read(folder, kind, lambda manifest, parts: (manifest, parts))


def content(folder, kind="model"):
    """Return the number, after checking that the manifest and the files agree."""
    manifest, parts = read(folder, kind)
    label = "state.safetensors" if kind == "checkpoint" else "weights.safetensors"
    value = manifest["value"]
    assert torch.equal(storage.read_tensors(parts[label])["w"], torch.full((50,), float(value)))
    if kind != "checkpoint":
        assert parts["embeddings-a.parquet"].read_text() == f"vectors {value}"
    return value


def names(folder):
    return {path.name for path in folder.iterdir()}


def rewrite(folder, **changes):
    """Change the manifest and update its checksum."""
    path = folder / "model.json"
    manifest = json.loads(path.read_text()) | changes
    manifest = {key: value for key, value in manifest.items() if value is not None}
    manifest.pop("checksum", None)
    text = json.dumps(manifest, sort_keys=True)
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))


# -- writing and reading --------------------------------------------------------------------


def test_read_returns_what_was_committed(tmp_path):
    folder = tmp_path / "deep" / "folder"
    assert not storage.exists(folder, "model")
    commit(folder, 1)
    assert storage.exists(folder, "model")
    assert not storage.exists(folder, "checkpoint")
    assert content(folder) == 1


def test_the_manifest_lists_files_named_after_their_hash(tmp_path):
    commit(tmp_path, 1)
    files = json.loads((tmp_path / "model.json").read_text())["files"]
    assert names(tmp_path) == {"model.json"} | {entry["name"] for entry in files.values()}
    for label, entry in files.items():
        data = (tmp_path / entry["name"]).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        stem, suffix = label.rsplit(".", 1)
        assert entry == {
            "name": f"{stem}-{digest[:16]}.{suffix}", "sha256": digest, "bytes": len(data)
        }  # fmt: skip


def test_a_commit_replaces_the_previous_one(tmp_path):
    for value in (1, 2, 2, 1):
        commit(tmp_path, value)
        assert content(tmp_path) == value
        assert len(names(tmp_path)) == 3


def test_a_manifest_is_indented_json(tmp_path):
    commit(tmp_path, 1)
    text = (tmp_path / "model.json").read_text(encoding="ascii")
    assert text.splitlines()[:4] == ["{", ' "format": 2,', ' "kind": "model",', ' "value": 1,']


def test_numpy_scalars_are_stored_as_numbers(tmp_path):
    storage.commit(tmp_path, "model", {"n": np.int64(3), "x": np.float32(0.5)}, {})
    manifest, _ = read(tmp_path)
    assert (manifest["n"], manifest["x"]) == (3, 0.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_nan_and_infinity_are_refused(tmp_path, value):
    commit(tmp_path, 1)
    with pytest.raises(StorageError, match=r"cannot write the model: .*not JSON compliant"):
        storage.commit(tmp_path, "model", {"value": value}, {})
    assert content(tmp_path) == 1


def test_the_type_of_values_that_cannot_be_stored_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot write the model: set values cannot be stored"):
        storage.commit(tmp_path, "model", {"value": {1}}, {})


@given(
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]),
)
def test_tensors_of_any_shape_and_type_are_read_back(tmp_path_factory, shape, dtype):
    path = tmp_path_factory.mktemp("tensors") / "t.safetensors"
    rng = np.random.default_rng(0)
    tensors = {
        "plain": torch.from_numpy(rng.integers(0, 2, size=shape)).to(dtype),
        "turned": torch.from_numpy(rng.integers(0, 99, size=(3, 2)).T),
    }
    storage.tensors_writer(tensors)(path)
    read = storage.read_tensors(path)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


def test_one_tensor_under_two_names_is_written_under_both(tmp_path):
    w = torch.arange(6.0)
    storage.tensors_writer({"a": w, "b": w, "part": w[2:4]})(tmp_path / "t")
    read = storage.read_tensors(tmp_path / "t")
    assert read["a"].tolist() == read["b"].tolist() == w.tolist()
    assert read["part"].tolist() == [2.0, 3.0]


def test_keep_preserves_the_previous_commit_until_the_next(tmp_path):
    commit(tmp_path, 1, keep=True)
    assert not storage.exists(tmp_path, "model-before")
    for value in (2, 3):
        commit(tmp_path, value, keep=True)
        assert content(tmp_path) == value
        assert content(tmp_path, "model-before") == value - 1
        assert len(names(tmp_path)) == 6  # twice a manifest and two files
    storage.restore_previous(tmp_path, "model")
    assert content(tmp_path) == content(tmp_path, "model-before") == 2


def test_restore_previous_without_a_previous_commit_does_nothing(tmp_path):
    commit(tmp_path, 1)
    storage.restore_previous(tmp_path, "model")
    assert content(tmp_path) == 1
    assert len(names(tmp_path)) == 3


# -- one read -------------------------------------------------------------------------------


@pytest.fixture
def hashed(monkeypatch):
    """Return the names of the files that are hashed, in order."""
    found, sha256 = [], storage._sha256

    def record(path):
        found.append(path.name)
        return sha256(path)

    monkeypatch.setattr(storage, "_sha256", record)
    return found


def test_a_read_hashes_each_file_once(tmp_path, hashed):
    commit(tmp_path, 1)
    hashed.clear()
    assert content(tmp_path) == 1
    assert sorted(hashed) == sorted(names(tmp_path) - {"model.json"})


@pytest.mark.parametrize("kind", ["model", "checkpoint", "model-before"])
def test_a_commit_during_a_read_starts_it_again(tmp_path, kind):
    for value in (1, 2):
        commit(tmp_path, value, kind.removesuffix("-before"), keep=True)
    values = []

    def load(manifest, parts):
        values.append(manifest["value"])
        if len(values) == 1:
            for value in (3, 4):
                commit(tmp_path, value, kind.removesuffix("-before"), keep=True)
        return {path.read_bytes() for path in parts.values()}

    assert storage.read(tmp_path, kind, load)
    assert values == ([1, 3] if kind == "model-before" else [2, 4])


def test_a_read_that_succeeds_is_not_repeated(tmp_path):
    """The files have the content that the manifest names, whatever is committed later."""
    commit(tmp_path, 1)

    def load(manifest, parts):
        data = parts["embeddings-a.parquet"].read_text()
        commit(tmp_path, 2)
        return manifest["value"], data

    assert storage.read(tmp_path, "model", load) == (1, "vectors 1")


@pytest.mark.parametrize(
    "error", [StorageError("damaged"), ParameterError("bad"), OSError(5, "Input/output error")]
)
def test_endless_commits_are_an_error(tmp_path, error):
    commit(tmp_path, 0)
    values = iter(range(1, 100))

    def load(manifest, parts):
        commit(tmp_path, next(values))
        raise error

    message = "the model changed during all 5 attempts to read it; try again when no process is"
    with pytest.raises(StorageError, match=message):
        storage.read(tmp_path, "model", load)
    assert next(values) == 6


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StorageError("as it is"), "^as it is$"),
        (ParameterError("n: expected 1, got 2"), "damaged model: n: expected 1, got 2$"),
        (GraphError("links: bad"), "damaged model: links: bad$"),
        (OSError(5, "Input/output error"), r"cannot read the model: .*Input/output error$"),
    ],
)
def test_errors_of_an_unchanged_folder_are_raised_at_once(tmp_path, error, message):
    commit(tmp_path, 0)
    calls = []

    def load(manifest, parts):
        calls.append(parts)
        raise error

    with pytest.raises(StorageError, match=message):
        storage.read(tmp_path, "model", load)
    assert len(calls) == 1


@pytest.mark.parametrize("error", [TypeError("bug"), KeyError("bug"), RuntimeError("bug")])
def test_programming_errors_are_not_called_damage(tmp_path, error):
    commit(tmp_path, 0)

    def load(manifest, parts):
        commit(tmp_path, 1)  # not even then
        raise error

    with pytest.raises(type(error), match="bug"):
        storage.read(tmp_path, "model", load)


def test_a_part_that_is_not_listed_is_named(tmp_path):
    commit(tmp_path, 0)
    with pytest.raises(StorageError, match=r"damaged model: its manifest lists no links\.parquet"):
        storage.read(tmp_path, "model", lambda _, parts: storage.find_part(parts, "links.parquet"))


# -- other files and writers ----------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "weights.safetensors",
        "weights-final.safetensors",
        "embeddings.parquet",
        "table-0123456789abcdef.parquet",
        ".download.partial",
        "model.json.bak",
        "state-0123456789abcdef.safetensors",
    ],
)
def test_other_files_in_the_folder_are_not_touched(tmp_path, name):
    (tmp_path / name).write_text("mine")
    (tmp_path / "weights-0123456789abcdef.safetensors").mkdir()
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    assert (tmp_path / name).read_text() == "mine"
    assert (tmp_path / "weights-0123456789abcdef.safetensors").is_dir()


def test_partial_files_of_a_killed_process_are_removed(tmp_path):
    for name in (".model-before.json.123.partial", ".weights.safetensors.partial"):
        (tmp_path / name).write_text("half")
    commit(tmp_path, 1)
    assert len(names(tmp_path)) == 3


def test_partial_files_of_a_kind_with_special_characters_are_removed(tmp_path):
    (tmp_path / ".index+a+b-before.json.123.partial").write_text("half")
    storage.commit(tmp_path, "index+a+b", {}, {"graph.hnsw": lambda path: path.write_text("1")})
    assert not [*tmp_path.glob(".*")]


def test_two_processes_may_remove_the_same_file(tmp_path, monkeypatch):
    commit(tmp_path, 1)
    unlink = Path.unlink

    def too_late(path, **how):
        unlink(path)
        unlink(path, **how)

    monkeypatch.setattr(Path, "unlink", too_late)
    commit(tmp_path, 2)
    assert content(tmp_path) == 2


WRITER = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
import time
from pathlib import Path
from pmvge import storage
folder, first = Path(sys.argv[1]), int(sys.argv[2])
(folder.parent / f"ready {first}").touch()
while len([*folder.parent.glob("ready *")]) < 2:
    time.sleep(0.001)
for value in range(first, first + 60):
    write = lambda path: path.write_text(str(value) * 200_000)
    parts = {"weights.parquet": write, "embeddings-a.parquet": write}
    storage.commit(folder, "model", {"value": value}, parts, keep=True)
"""


def test_two_processes_may_write_into_one_folder(tmp_path):
    folder, reads = tmp_path / "model", 0
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen([*command, str(first)]) for first in (1000, 2000)]
    while any(writer.poll() is None for writer in writers):
        if storage.exists(folder, "model"):
            try:
                read(folder)
                reads += 1
            except StorageError as error:
                assert "changed during all" in str(error)  # noqa: PT017
    assert [writer.returncode for writer in writers] == [0, 0]
    assert reads
    for kind in ("model", "model-before"):
        manifest, parts = read(folder, kind)
        assert {path.read_text() for path in parts.values()} == {str(manifest["value"]) * 200_000}
    assert read(folder)[0]["value"] in (1059, 2059)
    assert len(names(folder)) == 6


def test_remove_deletes_committed_files_only(tmp_path):
    for value in (1, 2):
        commit(tmp_path / "a", value, keep=True)
        commit(tmp_path / "b", value, keep=True)
    (tmp_path / "b" / "notes.txt").write_text("mine")
    commit(tmp_path / "c", 1)  # without a previous commit
    for name in "abc":
        storage.remove(tmp_path / name, "model")
    assert names(tmp_path) == {"b"}
    assert names(tmp_path / "b") == {"notes.txt"}
    storage.remove(tmp_path / "none", "model")


def test_an_interrupted_removal_leaves_no_manifest(tmp_path, monkeypatch):
    commit(tmp_path, 1, keep=True)
    commit(tmp_path, 2, keep=True)
    unlink, gone = Path.unlink, []

    def cut_short(path, **how):
        if len(gone) == 3:
            raise KeyboardInterrupt
        gone.append(path.name)
        unlink(path, **how)

    monkeypatch.setattr(Path, "unlink", cut_short)
    with pytest.raises(KeyboardInterrupt):
        storage.remove(tmp_path, "model")
    assert not storage.exists(tmp_path, "model")
    assert not storage.exists(tmp_path, "model-before")


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()])
def test_a_failed_commit_leaves_no_files(tmp_path, error):
    commit(tmp_path, 1)
    before = names(tmp_path)

    def fail(path):
        path.write_text("half")
        raise error

    def write(path):
        path.write_text("new")

    parts = {"weights.safetensors": write, "links.parquet": write, "labels.parquet": fail}
    with pytest.raises((StorageError, KeyboardInterrupt)):
        storage.commit(tmp_path, "model", {}, parts)
    assert names(tmp_path) == before
    assert content(tmp_path) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("part", ["weights-*", "model.json"])
def test_a_named_pipe_is_refused_without_blocking(tmp_path, part):
    commit(tmp_path, 1)
    (path,) = tmp_path.glob(part)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StorageError, match="is not a file"):
        read(tmp_path)


def test_labels_of_a_forged_manifest_are_escaped(tmp_path):
    commit(tmp_path, 1)
    rewrite(tmp_path, files={"weights(": {"name": "x", "sha256": "", "bytes": 0}})
    commit(tmp_path, 2)
    assert content(tmp_path) == 2


def test_a_model_and_a_checkpoint_can_share_a_folder(tmp_path):
    commit(tmp_path, 1, "checkpoint")
    commit(tmp_path, 2, "model")
    commit(tmp_path, 3, "checkpoint")
    assert content(tmp_path, "model") == 2
    assert content(tmp_path, "checkpoint") == 3
    assert len(names(tmp_path)) == 5


def test_parts_of_an_earlier_commit_with_other_labels_are_removed(tmp_path):
    def write(path):
        path.write_text("x")

    (tmp_path / "notes-0123456789abcdef.parquet").write_text("mine")
    storage.commit(tmp_path, "model", {}, {"links-0.parquet": write, "labels-0.parquet": write})
    storage.commit(tmp_path, "model", {}, {"weights.safetensors": write})
    assert {name.split("-")[0] for name in names(tmp_path)} == {"model.json", "weights", "notes"}
    # A file that no manifest has named is not removed, whatever its name.
    (tmp_path / "links-0123456789abcdef.parquet").write_text("mine")
    storage.commit(tmp_path, "model", {}, {"weights.safetensors": write})
    assert (tmp_path / "links-0123456789abcdef.parquet").read_text() == "mine"


def test_the_parts_of_a_damaged_manifest_are_not_removed(tmp_path):
    commit(tmp_path, 1)
    storage.commit(tmp_path, "model", {}, {"links.parquet": lambda path: path.write_text("x")})
    (tmp_path / "model.json").write_text("{")
    commit(tmp_path, 2)
    assert content(tmp_path) == 2
    assert len([name for name in names(tmp_path) if name.startswith("links-")]) == 1


# -- single files ---------------------------------------------------------------------------


def test_replace_file_is_atomic(tmp_path):
    path = tmp_path / "very" / "deep" / "file.txt"
    for text in ("one", "two"):
        seen = []

        def write(partial, text=text, seen=seen):
            seen.append(path.read_text() if path.exists() else None)
            partial.write_text(text)
            assert partial.parent == path.parent  # on the same file system: a rename is atomic
            seen.append(path.read_text() if path.exists() else None)

        storage.replace_file(path, write)
        assert seen == ([None, None] if text == "one" else ["one", "one"])
        assert path.read_text() == text
        assert names(path.parent) == {"file.txt"}


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), KeyError("x"), KeyboardInterrupt()]
)
def test_the_old_file_is_kept_if_writing_fails(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write(partial):
        partial.write_text("half")
        raise error

    kind = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind) as caught:
        storage.replace_file(path, write)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: cannot be written: No space left"
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file.txt"}


def test_threads_may_write_the_same_file(tmp_path):
    path = tmp_path / "table.csv"
    inside = threading.Barrier(4, timeout=60)

    def write(text):
        def fill(partial):
            inside.wait()  # all threads have a partial file now
            partial.write_text(text)
            inside.wait()
            assert partial.read_text() == text

        storage.replace_file(path, fill)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(write, text) for text in "abcd"]:
            done.result()
    assert path.read_text() in "abcd"
    assert [*tmp_path.iterdir()] == [path]


def test_the_partial_file_of_a_killed_process_in_a_folder_is_removed(tmp_path, monkeypatch):
    """A commit recognises the names of partial files that replace_file writes."""
    monkeypatch.setattr(storage.Path, "unlink", lambda *_, **__: None)
    with pytest.raises(StorageError):
        storage.replace_file(tmp_path / "model.json", fail_halfway)
    monkeypatch.undo()
    assert len([*tmp_path.glob(".*.partial")]) == 1
    commit(tmp_path, 1)
    assert not [*tmp_path.glob(".*")]


def fail_halfway(partial):
    partial.write_text("half")
    raise OSError("killed")


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder: cannot be written: "):
        storage.replace_file(tmp_path / "folder", lambda path: path.write_text("new"))
    assert names(tmp_path) == {"folder"}


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="x: cannot be written: "):
        storage.replace_file(tmp_path / "file" / "x", lambda path: path.write_text("new"))


# -- damaged folders ------------------------------------------------------------------------


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, flip, empty])
@pytest.mark.parametrize("part", ["weights-*", "embeddings-*", "model.json"])
def test_damaged_files_are_detected(tmp_path, damage, part):
    commit(tmp_path, 1)
    (path,) = tmp_path.glob(part)
    damage(path)
    with pytest.raises(StorageError, match=r"damaged|does not describe one"):
        read(tmp_path)


def test_the_error_of_a_truncated_file_has_both_sizes(tmp_path):
    commit(tmp_path, 1)
    (path,) = tmp_path.glob("weights-*")
    size = path.stat().st_size
    truncate(path)
    message = f"damaged model: {path.name} has {size // 2} bytes that do not match its checksum "
    message += f"({size} bytes were written)"
    with pytest.raises(StorageError, match=re.escape(message)):
        read(tmp_path)


def test_read_errors_of_the_disk_are_storage_errors(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    commit(tmp_path, 1)
    monkeypatch.setattr(storage.hashlib, "file_digest", fails)
    with pytest.raises(StorageError, match=r"cannot read the model: .*Input/output error"):
        read(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", fails)
    with pytest.raises(StorageError, match=r"cannot read model\.json: .*Input/output error"):
        read(tmp_path)


def test_a_folder_in_place_of_a_part_is_an_error(tmp_path):
    commit(tmp_path, 1)
    (path,) = tmp_path.glob("weights-*")
    path.unlink()
    path.mkdir()
    with pytest.raises(
        StorageError, match=r"cannot read the model: weights-\w+\.safetensors is not a file"
    ):
        read(tmp_path)


def test_every_flipped_bit_of_a_manifest_is_detected(tmp_path):
    commit(tmp_path, 1)
    path = tmp_path / "model.json"
    original = path.read_bytes()
    for position in range(len(original)):
        data = bytearray(original)
        data[position] ^= 1
        path.write_bytes(data)
        try:
            manifest, _ = read(tmp_path)
        except StorageError:
            continue
        assert manifest == json.loads(original)  # white space became other white space


def test_a_missing_part_is_named(tmp_path):
    commit(tmp_path, 1)
    (path,) = tmp_path.glob("weights-*")
    path.unlink()
    with pytest.raises(StorageError, match=rf"damaged model: {path.name} is missing"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": storage.FORMAT + 1}, "written by a newer pmvge: format 3, this one reads up"),
        ({"format": "1"}, "expected a format number, got '1'"),
        ({"format": 0}, "expected a format number, got 0"),
        ({"format": None}, "expected a format number, got None"),
        ({"kind": "checkpoint"}, "not a pmvge model: model.json does not describe one"),
        ({"kind": None}, "not a pmvge model: model.json does not describe one"),
        ({"files": None}, "damaged model: its list of files"),
        ({"files": ["weights"]}, r"damaged model: its list of files: got \['weights'\]"),
        ({"files": {"weights.safetensors": {"name": "x"}}}, "damaged model: its list of files"),
        ({"files": {"x": {"name": "\ud800", "sha256": ""}}}, "damaged model: its list of files"),
        ({"files": {"x": {"name": "a\0", "sha256": ""}}}, "damaged model: its list of files"),
        ({"files": {"x": {"name": "a" * 999, "sha256": ""}}}, "cannot read the model: .*too long"),
    ],
)
def test_a_manifest_is_checked_beyond_its_checksum(tmp_path, changes, message):
    commit(tmp_path, 1)
    rewrite(tmp_path)
    assert content(tmp_path) == 1  # rewriting alone changes nothing
    rewrite(tmp_path, **changes)
    with pytest.raises(StorageError, match=message):
        read(tmp_path)


def test_a_manifest_names_no_file_outside_its_folder(tmp_path):
    folder = tmp_path / "model"
    commit(folder, 1)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    entry = {"name": "../secret", "sha256": hashlib.sha256(b"secret").hexdigest(), "bytes": 6}
    rewrite(folder, files={"weights.safetensors": entry})
    with pytest.raises(StorageError, match="secret is missing"):
        read(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("{", r"not valid JSON \(Expecting property name"),
        ("[" * 100_000, "not valid JSON"),
        ("\xff\xfe", "not valid JSON"),
        ("[]", "does not describe one"),
        ('{"name": "package"}', "does not describe one"),
    ],
    ids=["nothing", "half", "depths", "bytes", "list", "package"],
)
def test_json_files_that_are_not_manifests_are_refused(tmp_path, text, message):
    (tmp_path / "model.json").write_text(text, encoding="latin-1")
    with pytest.raises(StorageError, match=message):
        read(tmp_path)


def test_paths_without_a_manifest_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd" / "model.json").mkdir(parents=True)
    for name in ("missing", "file", "empty"):
        with pytest.raises(StorageError, match=rf"{name}: not a pmvge model: there is no model"):
            read(tmp_path / name)
    with pytest.raises(StorageError, match=r"odd: cannot read model\.json"):
        read(tmp_path / "odd")
    with pytest.raises(StorageError, match="file: cannot write the model"):
        commit(tmp_path / "file", 1)


def test_a_file_that_is_not_safetensors_is_refused(tmp_path):
    (tmp_path / "t.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(StorageError, match=r"t\.safetensors: damaged: .*header"):
        storage.read_tensors(tmp_path / "t.safetensors")
