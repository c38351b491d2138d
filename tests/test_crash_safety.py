"""After a crash at any point of a commit, a reader sees the old content or the new."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE, storage
from pmvge.errors import StorageError


class Crash(BaseException):
    """A simulated crash, which the program must not catch."""


NO_SPACE = OSError(28, "No space left on device")

# Every call that changes the disk in a commit of two parts, over a previous commit of two.
STAGES = [
    *(("replace", k) for k in range(3)),
    *(("fsync", k) for k in range(4)),
    *(("unlink", k) for k in range(2)),
]


def commit(folder, value):
    """Commit a number in the manifest and in two files."""
    parts = {
        "weights.safetensors": storage.tensors_writer({"w": torch.full((50,), float(value))}),
        "embeddings-a.parquet": lambda path: path.write_text(f"vectors {value}"),
    }
    storage.commit(folder, "model", {"value": value}, parts)


def read(folder):
    """Return the manifest and the paths of the files."""
    return storage.read(folder, "model", lambda manifest, parts: (manifest, parts))


def content(folder):
    """Return the number, after checking that the manifest and the files agree."""
    manifest, parts = read(folder)
    value = manifest["value"]
    weights = storage.read_tensors(parts["weights.safetensors"])["w"]
    assert torch.equal(weights, torch.full((50,), float(value)))
    assert parts["embeddings-a.parquet"].read_text() == f"vectors {value}"
    return value


def names(folder):
    return {path.name for path in folder.iterdir()}


def failing(original, at, error):
    """Return the function, changed to raise at call number ``at``."""
    calls = itertools.count()

    def call(*arguments, **keywords):
        if next(calls) == at:
            raise error
        return original(*arguments, **keywords)

    return call


# -- a folder -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Crash(), NO_SPACE], ids=["crash", "error"])
@pytest.mark.parametrize(("name", "at"), STAGES)
def test_a_crash_at_any_stage_leaves_the_old_or_the_new_content(
    tmp_path, monkeypatch, name, at, error
):
    commit(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name), at, error))
        with pytest.raises((Crash, StorageError)) as caught:
            commit(tmp_path, 2)
    if error is NO_SPACE:
        assert "cannot write the model" in str(caught.value)
        assert "No space left on device" in str(caught.value)
    # The manifest is the last of three renames, before the folder's sync and the clean-up.
    committed = (name, at) == ("fsync", 3) or name == "unlink"
    assert content(tmp_path) == (2 if committed else 1)
    commit(tmp_path, 3)
    assert content(tmp_path) == 3
    assert len(names(tmp_path)) == 3, "leftovers"


def test_the_list_of_stages_is_complete(tmp_path, monkeypatch):
    commit(tmp_path, 1)
    calls = []

    def recorded(name, original):
        return lambda *a, **k: (calls.append(name), original(*a, **k))[1]

    for name in {name for name, _ in STAGES} | {"rename", "remove", "rmdir", "truncate"}:
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    commit(tmp_path, 2)
    assert sorted(calls) == sorted(name for name, _ in STAGES)


@pytest.mark.parametrize("written", [0, 10], ids=["nothing", "half"])
@pytest.mark.parametrize("error", [Crash(), NO_SPACE], ids=["crash", "error"])
def test_a_partially_written_part_is_ignored(tmp_path, error, written):
    def write(path):
        path.write_bytes(b"x" * written)
        raise error

    commit(tmp_path, 1)
    with pytest.raises((Crash, StorageError)):
        storage.commit(tmp_path, "model", {"value": 2}, {"weights.safetensors": write})
    assert content(tmp_path) == 1
    commit(tmp_path, 3)
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize(
    "name",
    [
        ".embeddings-gone.parquet.partial",
        ".weights.safetensors.partial",
        ".model.json.partial",
        "embeddings-gone-0123456789abcdef.parquet",
    ],
)
def test_files_left_by_a_crash_are_removed_by_the_next_commit(tmp_path, name):
    (tmp_path / name).write_text("left")
    commit(tmp_path, 1)
    assert name not in names(tmp_path)
    assert content(tmp_path) == 1


def test_a_first_commit_that_fails_leaves_no_model(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(os.replace, 2, Crash()))
        with pytest.raises(Crash):
            commit(tmp_path, 1)
    assert not storage.exists(tmp_path, "model")
    with pytest.raises(StorageError, match="not a pmvge model"):
        read(tmp_path)


def test_weights_that_cannot_be_written_are_a_storage_error(tmp_path):
    commit(tmp_path, 1)
    (tmp_path / ".weights.safetensors.partial").mkdir()  # blocks the partial file
    with pytest.raises(StorageError, match="cannot write the model"):
        commit(tmp_path, 2)
    assert content(tmp_path) == 1


def test_files_are_synced_before_they_are_renamed(tmp_path, monkeypatch):
    events, replace, fsync = [], os.replace, os.fsync

    def record_fsync(descriptor):
        status = os.fstat(descriptor)
        events.append(("sync", status.st_ino, status.st_size))
        fsync(descriptor)

    def record_replace(source, target):
        status = Path(source).stat()
        assert events[-1] == ("sync", status.st_ino, status.st_size), target
        events.append(("replace", Path(target).name.split("-")[0]))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    commit(tmp_path, 1)
    assert [event[1] for event in events if event[0] == "replace"] == [
        "weights",
        "embeddings",
        "model.json",
    ]
    assert events[-1][:2] == ("sync", tmp_path.stat().st_ino)  # the folder is synced last


def test_a_commit_during_a_read_gives_the_new_content(tmp_path, monkeypatch):
    commit(tmp_path, 1)
    verified, committed = storage._verified, []

    def commit_first(*arguments):
        if not committed:
            committed.append(True)
            commit(tmp_path, 2)  # removes the files that the manifest just read names
        return verified(*arguments)

    monkeypatch.setattr(storage, "_verified", commit_first)
    assert content(tmp_path) == 2


# -- a model --------------------------------------------------------------------------------


def fitted(seed):
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(20, 3)), "b": 5}
    graph = MultiViewGraph(views, {("a", "b"): (np.arange(20), np.arange(20) % 5)})
    settings = {"hidden_sizes": (4,), "max_steps": 3, "progress": False}
    return PMvGE(2, random_state=seed, **settings).fit(graph)


@pytest.mark.parametrize("error", [Crash(), NO_SPACE], ids=["crash", "error"])
@pytest.mark.parametrize(
    ("name", "at"),
    [*(("replace", k) for k in range(7)), *(("fsync", k) for k in range(8)), ("save_file", 0)],
)
def test_a_model_survives_a_crash_of_a_later_save(tmp_path, monkeypatch, name, at, error):
    old, new = fitted(0), fitted(1)
    old.save(tmp_path)
    module = storage if name == "save_file" else os
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing(getattr(module, name), at, error))
        with pytest.raises((Crash, StorageError)):
            new.save(tmp_path)
    expected = new if (name, at) == ("fsync", 7) else old
    for view, Y in PMvGE.load(tmp_path).embeddings_.items():
        assert np.array_equal(Y, expected.embeddings_[view])
    new.save(tmp_path)
    assert np.array_equal(PMvGE.load(tmp_path).embeddings_["a"], new.embeddings_["a"])
    assert len(names(tmp_path)) == 8  # with the files of effects and the card
