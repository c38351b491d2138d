"""Forged model folders and feature files: no code in them is executed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import StorageError, TableError
from pmvge.tables import open_features


@pytest.mark.skipif(os.name == "nt", reason="POSIX file modes")
def test_files_of_a_model_have_the_usual_modes(tmp_path: Path) -> None:
    """File modes follow the umask."""
    model = PMvGE(2, max_steps=2).fit(MultiViewGraph({"a": 3, "b": 3}, {("a", "b"): np.eye(3)}))
    for mask in (0o022, 0o077):
        usual = os.umask(mask)
        try:
            model.save(tmp_path / f"{mask}")
        finally:
            os.umask(usual)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / f"{mask}").iterdir()}
        assert modes == {0o666 & ~mask}


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def forge(folder: Path, label: str, content: bytes) -> None:
    """Replace a file of a model and recompute the checksums."""
    manifest = json.loads((folder / "model.json").read_text("utf-8"))
    entry = manifest["files"][label]
    (folder / entry["name"]).write_bytes(content)
    entry |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    sign(folder, manifest)


def forge_name(folder: Path, label: str, name: str) -> None:
    manifest = json.loads((folder / "model.json").read_text("utf-8"))
    manifest["files"][label]["name"] = name
    sign(folder, manifest)


def sign(folder: Path, manifest: dict[str, Any]) -> None:
    manifest.pop("checksum")
    text = json.dumps(manifest, sort_keys=True)
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(manifest), "utf-8")


@pytest.mark.parametrize("label", ["weights.safetensors", "embeddings-a.parquet"])
def test_loading_a_forged_model_runs_no_code(label: str, tmp_path: Path) -> None:
    graph = MultiViewGraph({"a": 3, "b": 3}, {("a", "b"): np.eye(3)})
    PMvGE(2, max_steps=2).fit(graph).save(tmp_path / "model")
    for write in (pickle.dump, torch.save):
        stream = io.BytesIO()
        write(Bomb(tmp_path / "owned"), stream)
        forge(tmp_path / "model", label, stream.getvalue())
        with pytest.raises(StorageError, match=r"damaged|not a Parquet file"):
            PMvGE.load(tmp_path / "model")
    assert not (tmp_path / "owned").exists()
    pickle.loads(pickle.dumps(Bomb(tmp_path / "owned")))
    assert (tmp_path / "owned").exists()  # unpickling does run it


def test_opening_forged_features_runs_no_code(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[Bomb(tmp_path / "owned")]]), allow_pickle=True)
    with pytest.raises(TableError, match="expected real numbers, got dtype object"):
        open_features(tmp_path / "x.npy")
    assert not (tmp_path / "owned").exists()


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    """Folders in file names are ignored, and names of folders are refused."""
    graph = MultiViewGraph({"a": 3, "b": 3}, {("a", "b"): np.eye(3)})
    model = PMvGE(2, max_steps=2).fit(graph)
    for name in ("..", "", ".", "/", "/etc/passwd", "../secret"):
        model.save(tmp_path / "model")
        forge_name(tmp_path / "model", "weights.safetensors", name)
        with pytest.raises(StorageError, match=r"is missing|cannot read the model"):
            PMvGE.load(tmp_path / "model")
