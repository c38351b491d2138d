"""Model folders of all formats can be loaded and give the same answers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file

from pmvge import PMvGE
from pmvge.errors import StorageError
from pmvge.storage import FORMAT

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDERS = sorted(FIXTURES.glob("model-format-*/"))
# Vectors are float32, and processors differ in the order of summation.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """Import the script that made the fixtures."""
    spec = importlib.util.spec_from_file_location("make_model", FIXTURES / "make_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differences(found: object, expected: object, where: str = "") -> list[str]:
    """Return where two nested values differ. Numbers may differ by rounding."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        keys = {*found, *expected}
        parts = (differences(found.get(k), expected.get(k), f"{where}.{k}") for k in sorted(keys))
        return [line for part in parts for line in part]
    try:
        same = bool(np.allclose(found, expected, **CLOSE))
    except TypeError:  # strings or None
        same = found == expected
    return [] if same else [f"{where}: {found} is not {expected}"]


def test_there_is_a_folder_of_every_format() -> None:
    assert [folder.name for folder in FOLDERS] == [f"model-format-{n + 1}" for n in range(FORMAT)]
    for number, folder in enumerate(FOLDERS, start=1):
        assert json.loads((folder / "model.json").read_text("utf-8"))["format"] == number


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_answers_are_unchanged(folder: Path, maker: ModuleType) -> None:
    expected = json.loads(folder.with_suffix(".json").read_text("utf-8"))
    assert differences(maker.answers(PMvGE.load(folder)), expected) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_links_and_labels_are_read(folder: Path, maker: ModuleType) -> None:
    model, graph = PMvGE.load(folder), maker.graph()
    saved = model.links_
    assert saved is not None
    assert saved.training.keys() == saved.held_out.keys() == graph.links.keys()
    for pair, links in graph.links.items():
        for found, step in ((saved.training[pair], 1), (saved.held_out[pair], 5)):
            for part in ("rows", "cols", "weights"):
                expected = getattr(links, part)[::step]
                np.testing.assert_array_equal(getattr(found, part), expected)
    assert model.labels_["film"]["genre"].tolist() == ["war", "love", "café"] * 4


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_model_that_is_loaded_and_saved_is_the_same(
    folder: Path, maker: ModuleType, tmp_path: Path
) -> None:
    model = PMvGE.load(folder)
    model.save(tmp_path / "again")
    again = PMvGE.load(tmp_path / "again")
    for view, Y in model.embeddings_.items():
        assert again.embeddings_[view].tobytes() == Y.tobytes()
    assert json.dumps(maker.answers(again)) == json.dumps(maker.answers(model))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert again._fitted.given_ids == model._fitted.given_ids == {"film", "tag", "user"}
    old, new = (next(path.glob("weights-*")) for path in (folder, tmp_path / "again"))
    assert {k: v.tobytes() for k, v in load_file(new).items()} == {
        k: v.tobytes() for k, v in load_file(old).items()
    }


def test_a_folder_of_a_later_format_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(FOLDERS[-1], folder)
    manifest = json.loads((folder / "model.json").read_text("utf-8"))
    manifest["format"] = FORMAT + 1
    del manifest["checksum"]
    text = json.dumps(manifest, sort_keys=True)
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(manifest), "utf-8")
    says = (
        rf"model\.json: written by a newer pmvge: format {FORMAT + 1}, .* reads up to {FORMAT}; "
        "update pmvge$"
    )
    with pytest.raises(StorageError, match=says):
        PMvGE.load(folder)
