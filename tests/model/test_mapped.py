"""A model with memory-mapped arrays gives the same bits, and shares its files."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE

N, M = 60, 30


@pytest.fixture(scope="module", params=["inner", "cosine", "difference"])
def folder(request, tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    ends = rng.integers(N, size=(2, 80))
    keep = ends[0] != ends[1]
    graph = MultiViewGraph(
        {"a": rng.normal(size=(N, 3)), "b": M, "c d": rng.normal(size=(M, 2))},
        {
            ("a", "b"): (rng.integers(N, size=200), rng.integers(M, size=200)),
            ("a", "a"): (ends.min(0)[keep], ends.max(0)[keep]),
            ("b", "c d"): (np.arange(M), np.arange(M), rng.random(M)),
        },
        ids={"a": [f"a{number}" for number in range(N)], "b": 5 * np.arange(M)},
    )
    settings = {"n_components": 4, "max_steps": 20, "random_state": 0, "progress": False}
    model = PMvGE(**settings, similarity=request.param).fit(graph)
    model.label({"a": {"kind": ["x", "yy"] * (N // 2)}}, names={"a": "kind"})
    path = tmp_path_factory.mktemp("models") / "model"
    model.save(path)
    return path


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_results_have_the_same_bits(folder, tmp_path):
    plain = PMvGE.load(folder)
    for _ in range(2):  # the first load writes the files, the second one reads them
        mapped = PMvGE.load(folder, memory_map=tmp_path)
        assert mapped.checksum_ == plain.checksum_
        for view in plain.view_names_:
            np.testing.assert_array_equal(mapped.embeddings_[view], plain.embeddings_[view])
            np.testing.assert_array_equal(mapped.ids_[view], plain.ids_[view])
        np.testing.assert_array_equal(mapped.names_["a"], plain.names_["a"])
        for exclude in ("known", "self", None):
            for view, among in (("a", "b"), ("b", "a"), ("a", "a"), ("b", "c d")):
                got, wanted = (
                    model.search(view, among=among, k=7, exclude=exclude)
                    for model in (mapped, plain)
                )
                np.testing.assert_array_equal(got[0], wanted[0])
                np.testing.assert_array_equal(got[1], wanted[1])
        links = {"a": ([0, 1], ["a3", "a4"])}
        np.testing.assert_array_equal(
            mapped.fold_in("b", links=links), plain.fold_in("b", links=links)
        )
        X, ids = np.ones((2, 3)), ["a7", "new"]
        np.testing.assert_array_equal(mapped.embed("a", X, ids=ids), plain.embed("a", X, ids=ids))
        assert mapped.evaluate() == plain.evaluate()
        assert mapped.find("a", ["a5"]).tolist() == ["a5"]
        for pair, links in plain.links_.training.items():
            assert mapped.links_.training[pair].equal_weights == links.equal_weights


def test_a_mapped_model_outlives_its_folder_and_changes_no_file(folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    mapped = PMvGE.load(copy, memory_map=tmp_path / "maps")
    before = digests(tmp_path / "maps")
    shutil.rmtree(copy)
    wanted = PMvGE.load(folder).search("a", among="b", k=3)
    np.testing.assert_array_equal(mapped.search("a", among="b", k=3)[1], wanted[1])
    mapped.embeddings_["a"][:] = 0  # a private copy of the page
    assert digests(tmp_path / "maps") == before
    again = tmp_path / "again"
    PMvGE.load(folder, memory_map=tmp_path / "maps").save(again)
    assert PMvGE.load(again).checksum_ == PMvGE.load(folder).checksum_


def test_a_changed_model_has_no_checksum(folder):
    model = PMvGE.load(folder)
    assert model.checksum_
    model.label({"b": {"kind": ["x"] * M}})
    assert model.checksum_ is None


def test_names_are_not_suggested_on_request(folder):
    model = PMvGE.load(folder)
    with pytest.raises(ValueError, match="similar: "):
        model.find("a", ["a3x"])
    with pytest.raises(ValueError, match="is not among the 60 ids and names of 'a', such as"):
        model.find("a", ["a3x"], suggest=False)
