"""A model that is saved is served, whole; a folder that cannot be read changes nothing."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.errors import StorageError
from pmvge.serving.app import build_app
from pmvge.serving.published import FIXED, FRESH, UNREADABLE, Current, Watcher
from pmvge.serving.publishing import publish
from pmvge.serving.settings import Settings
from pmvge.serving.workers import publish as publish_apart

GOOD = {"view": "users", "among": "films", "ids": ["u00004", "u00007"], "k": 5}


@pytest.fixture(scope="module")
def versions(film_model, tmp_path_factory):
    """Models with other expected weights and other names, by the label of their checksums."""
    folder = tmp_path_factory.mktemp("versions")
    model = PMvGE.load(film_model)
    names = model.names_["films"].tolist()
    for number in range(3):
        model.label(columns={"films": {"title": [f"{name} {number}" for name in names]}})
        part = model._fitted.alpha["users", "films"]
        object.__setattr__(part, "log_value", part.log_value + 0.5)
        model._set_fitted(model._fitted)
        model.save(folder / str(number))
    return [PMvGE.load(folder / str(number)) for number in range(3)]


def watcher(model, cache):
    def attempt():
        try:
            publish(model, cache)
        except StorageError as error:
            return str(error)
        return ""

    return Watcher(model, cache, attempt)


def wanted(model):
    ids, mu = model.search("users", ids=GOOD["ids"], among="films", k=5, exclude="self")
    names = dict(zip(model.ids_["films"].tolist(), model.names_["films"].tolist(), strict=True))
    return [
        [(i.item(), names[i.item()], float(w)) for i, w in zip(*row, strict=True)]
        for row in zip(ids, mu, strict=True)
    ]


def given(answer):
    return [
        [(p["id"], p["name"], p["expected_weight"]) for p in result["partners"]]
        for result in answer["results"]
    ]


def test_every_answer_under_load_is_of_one_model(serve, versions, own_model, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    truth = {model.checksum_[:16]: wanted(model) for model in versions}
    assert len({json.dumps(rows) for rows in truth.values()}) == 3
    versions[0].save(own_model)
    publish(own_model, cache)
    client = serve(cache, poll_seconds=0.01)
    watch = watcher(own_model, cache)
    seen: set[str] = set()
    done = threading.Event()

    def ask() -> int:
        count = 0
        while not done.is_set():
            answer = client.post("/search", json=GOOD)
            assert answer.status_code == 200, answer.text
            content = answer.json()
            assert answer.headers["x-model"] == content["model"]
            assert given(content) == truth[content["model"]]
            seen.add(content["model"])
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(ask) for _ in range(3)]
        try:
            for model in [*versions[1:], *versions]:
                model.save(own_model)
                watch.check()
                while client.get("/health").json()["model"] != model.checksum_[:16]:
                    assert not any(one.done() for one in clients)
        finally:
            done.set()
        assert min(one.result() for one in clients) > 0
    assert seen == set(truth)


def test_a_removed_or_half_written_folder_leaves_the_model_before_it(
    serve, versions, own_model, tmp_path
):
    cache = tmp_path / "cache"
    cache.mkdir()
    publish(own_model, cache)
    client = serve(cache, poll_seconds=0.01)
    watch = watcher(own_model, cache)
    first = client.get("/health").json()["model"]

    def check(reload: str, model: str) -> None:
        watch._again = 0.0
        watch.check()
        while client.get("/health").json()["reload"] != reload:
            pass
        answer = client.post("/search", json=GOOD)
        assert answer.status_code == 200
        assert answer.json()["model"] == model

    moved = own_model.rename(tmp_path / "moved")
    check(UNREADABLE, first)
    moved.rename(own_model)
    check(FRESH, first)
    manifest = (own_model / "model.json").read_bytes()
    (own_model / "model.json").write_bytes(manifest[: len(manifest) // 2])
    check(UNREADABLE, first)
    text = client.get("/health").text
    assert str(own_model) not in text
    versions[1].save(own_model)
    check(FRESH, versions[1].checksum_[:16])
    versions[2].save(tmp_path / "other")
    shutil.rmtree(own_model)
    shutil.copytree(tmp_path / "other", own_model)
    file = next(own_model.glob("embeddings-films*"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])  # a copy that is not complete
    check(UNREADABLE, versions[1].checksum_[:16])
    file.write_bytes(whole)  # model.json is the same as before
    check(FRESH, versions[2].checksum_[:16])


def test_a_folder_that_cannot_be_read_is_tried_less_and_less(own_model, tmp_path, monkeypatch):
    publish(own_model, tmp_path)
    attempts = []
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watch = Watcher(own_model, tmp_path, lambda: attempts.append(now[0]) or "damaged")
    watch.check()
    assert attempts == []
    (own_model / "model.json").unlink()
    for _ in range(200):
        watch.check()
        now[0] += 1
    gaps = [b - a for a, b in pairwise(attempts)]
    assert gaps[:6] == [1, 2, 4, 8, 16, 30]
    assert set(gaps[6:]) == {30}


def test_a_worker_that_starts_later_serves_the_published_model(versions, own_model, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    publish(own_model, cache)
    shutil.rmtree(own_model)
    build_app(Settings(cache))
    with pytest.raises(StorageError, match="no model is published"):
        build_app(Settings(tmp_path))


def test_a_saved_index_is_served_and_a_stale_one_refused(
    serve, other_model, own_model, tmp_path, caplog
):
    pytest.importorskip("faiss")
    cache = tmp_path / "cache"
    cache.mkdir()
    publish(own_model, cache)
    client = serve(cache, poll_seconds=0.01)
    watch = watcher(own_model, cache)
    request = {**GOOD, "index": "hnsw"}

    def refused() -> str:
        answer = client.post("/search", json=request)
        assert answer.status_code == 422, answer.text
        assert str(tmp_path) not in answer.text
        assert client.post("/search", json=GOOD).status_code == 200
        return answer.json()["error"]

    with caplog.at_level("WARNING", logger="pmvge.serving"):
        for _ in range(3):
            assert "the saved index of 'films' for 'users' is missing" in refused()
    assert len(caplog.records) == 1  # clients cannot fill the log
    model = PMvGE.load(own_model)
    index = model.index("films", among="users", kind="hnsw")
    index.save(own_model)
    watch.check()
    while (answer := client.post("/search", json=request)).status_code != 200:
        pass
    ids, mu = index.search(ids=GOOD["ids"], k=5, exclude="self")
    found = [[(i, w) for i, _, w in row] for row in given(answer.json())]
    assert [[i for i, _ in row] for row in found] == ids.tolist()
    np.testing.assert_allclose([[w for _, w in row] for row in found], mu)
    PMvGE.load(other_model).save(own_model)
    watch.check()
    while client.get("/health").json()["model"] == answer.json()["model"]:
        pass
    assert "is stale: build it with pmvge index" in refused()


def test_only_two_models_are_kept(versions, own_model, tmp_path):
    for model in versions:
        model.save(own_model)
        publish(own_model, tmp_path, FIXED)
    kept = {versions[1].checksum_, versions[2].checksum_}
    assert {path.name for path in (tmp_path / "models").iterdir()} == kept
    assert {path.name for path in (tmp_path / "maps").iterdir()} == kept
    assert Current.read(tmp_path) == Current(versions[2].checksum_, FIXED)


def test_the_process_that_publishes_ends_with_the_server(own_model, tmp_path):
    stopped = threading.Event()
    stopped.set()
    assert publish_apart(own_model, tmp_path, True, stopped) == ""
    assert multiprocessing.active_children() == []
    assert Current.read(tmp_path) is None
