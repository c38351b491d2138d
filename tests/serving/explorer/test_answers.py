"""What the page is told: the same as the model says, of one model, within limits."""

from __future__ import annotations

import base64
import gzip
import math
import shutil

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.model import Map, saved_map
from pmvge.serving import map_keeper
from pmvge.serving.publishing import publish
from pmvge.serving.settings import Limits


@pytest.fixture(scope="module")
def client(serve_module, mapped_cache):
    return serve_module(mapped_cache)


def ask(client, path, **body):
    answer = client.post(f"/explore/{path}", json=body)
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert answer.headers["x-model"] == content["model"]
    return content


def test_facts_of_the_model_and_its_map(client, mapped, mapped_model):
    facts = client.get("/explore/model").json()
    drawn = Map.load(mapped_model, mapped)
    assert facts["model"] == mapped.checksum_[:16]
    assert facts["state"] == "ready"
    assert facts["map"]["n"] == sum(map(len, mapped.ids_.values()))
    assert facts["map"]["partner_share"] == drawn.partner_share
    by_view = {one["view"]: one for one in facts["views"]}
    assert list(by_view) == list(mapped.view_names_)
    assert by_view["films"]["name"] == "title"
    assert by_view["users"]["labels"] == ["country"]
    inputs = {one["column"]: one for one in by_view["users"]["inputs"]}
    assert inputs["age"]["kind"] == "numeric"
    assert "de" in inputs["country"]["values"]
    films = mapped.known_links("films", mapped.ids_["films"], among="users").sum(axis=1)
    films = films + mapped.known_links("films", mapped.ids_["films"], among="genre").sum(axis=1)
    best = int(np.argmax(films))
    assert by_view["films"]["examples"][0]["at"] == best


def test_points_are_the_coordinates_of_all_views(client, mapped, mapped_model):
    drawn = Map.load(mapped_model, mapped)
    wanted = np.concatenate([drawn.xy[view] for view in mapped.view_names_])
    plain = client.get("/explore/points", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    np.testing.assert_array_equal(np.frombuffer(plain.content, "<f4").reshape(-1, 2), wanted)
    with client.stream("GET", "/explore/points", headers={"Accept-Encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == plain.content
    assert packed.headers["etag"] != plain.headers["etag"]
    again = client.get(
        "/explore/points",
        headers={"Accept-Encoding": "identity", "If-None-Match": plain.headers["etag"]},
    )
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["x-model"] == mapped.checksum_[:16]


@pytest.mark.parametrize("unknown", [False, True])
def test_partners_are_those_of_the_model(client, mapped, unknown):
    found = ask(client, "entity", view="films", id="f00003", k=4, exclude_known=unknown)
    at = int(np.flatnonzero(mapped.ids_["films"] == "f00003")[0])
    assert (found["id"], found["at"], found["name"]) == ("f00003", at, mapped.names_["films"][at])
    assert found["columns"]["year"] == mapped.columns_["films"]["year"][at]
    assert [part["view"] for part in found["partners"]] == ["genre", "users"]
    for part in found["partners"]:
        exclude = "known" if unknown else "self"
        ids, mu = mapped.search("films", ids=["f00003"], among=part["view"], k=4, exclude=exclude)
        given = part["entities"]
        assert [one["id"] for one in given] == ids[0].tolist()
        assert [one["expected_weight"] for one in given] == pytest.approx(mu[0].tolist())
        assert [mapped.ids_[part["view"]][one["at"]] for one in given] == ids[0].tolist()
        linked = mapped.known_links("films", ["f00003"], among=part["view"]).toarray()[0]
        assert [one["known"] for one in given] == [bool(linked[one["at"]]) for one in given]
    similar, _ = mapped.similar("films", ids=["f00003"], k=5)
    assert [one["id"] for one in found["similar"]] == similar[0].tolist()


def test_views_without_common_links_are_ranked_by_similarity(client):
    found = ask(client, "entity", view="users", at=3)
    by = {part["view"]: part["by"] for part in found["partners"]}
    assert by == {"films": "intensity", "genre": "similarity"}


def test_an_entity_is_the_same_by_id_name_and_position(client, mapped):
    name = next(n for n in mapped.names_["films"] if (mapped.names_["films"] == n).sum() == 1)
    at = int(np.flatnonzero(mapped.names_["films"] == name)[0])
    answers = [
        ask(client, "entity", view="films", **given)
        for given in ({"id": name}, {"at": at}, {"id": mapped.ids_["films"][at].item()})
    ]
    assert answers[0] == answers[1] == answers[2]


def test_a_new_entity_has_the_partners_of_search_and_a_place(client, mapped, mapped_model):
    row = {"age": 30, "country": "de", "likes": "robot planet"}
    links = {"films": [{"id": "f00003", "weight": 4}, {"id": "f00005", "weight": 2}]}
    found = ask(client, "new", view="users", row=row, links=links, k=6)
    request = {"view": "users", "rows": [row], "links": links, "k": 6}
    films = client.post("/search", json={**request, "among": "films"}).json()
    given = found["partners"][0]["entities"]
    assert [one["id"] for one in given] == [p["id"] for p in films["results"][0]["partners"]]
    similar = client.post("/similar", json=request).json()["results"][0]["partners"]
    assert [one["id"] for one in found["similar"]] == [one["id"] for one in similar]
    xy = Map.load(mapped_model, mapped).xy
    near = [("users", one["id"]) for one in similar[:5]]
    near += [("films", one["id"]) for one in given[:5]]
    places = [xy[view][mapped.ids_[view].tolist().index(id_)] for view, id_ in near]
    medoid = min(places, key=lambda one: sum(math.dist(one, other) for other in places))
    five = sorted(places, key=lambda one: math.dist(one, medoid))[:5]
    assert found["xy"] == pytest.approx(np.mean(five, axis=0).tolist(), abs=1e-3)
    assert not any("known from training" in note for note in found["notes"])
    assert (found["id"], found["at"]) == (None, None)


def test_a_label_hides_a_column_of_the_same_name_everywhere(array_model, tmp_path, serve):
    model = PMvGE.load(array_model)
    n = len(model.ids_["word"])
    model.label({"word": {"kind": ["label"] * n}}, columns={"word": {"kind": ["column"] * n}})
    model.save(tmp_path / "model")
    publish(tmp_path / "model", tmp_path / "cache")
    client = serve(tmp_path / "cache")
    found = ask(client, "entity", view="word", at=0)
    assert (found["about"], found["columns"]) == ("label", {"kind": "label"})
    assert ask(client, "colors", view="word", column="kind")["categories"][0]["text"] == "label"
    request = {"view": "paper", "ids": [1000], "among": "word", "show": ["kind"], "k": 1}
    (partner,) = client.post("/search", json=request).json()["results"][0]["partners"]
    assert partner["columns"] == {"kind": "label"}


def test_a_new_entity_of_a_view_without_columns_has_links_only(client):
    found = ask(client, "new", view="genre", links={"films": [{"id": "f00003"}]})
    assert found["partners"][0]["view"] == "films"
    assert len(found["xy"]) == 2


def test_names_colours_and_texts(client, mapped):
    found = ask(client, "names", positions={"films": [5, 0], "users": [2]})["found"]
    assert [(one["view"], one["at"]) for one in found] == [("films", 5), ("films", 0), ("users", 2)]
    assert found[0]["name"] == mapped.names_["films"][5]
    assert found[2]["about"].startswith(str(mapped.labels_["users"]["country"][2]))
    colors = ask(client, "colors", view="users", column="country")
    codes = base64.b64decode(colors["codes"])
    texts = [colors["categories"][code]["text"] for code in codes]
    assert texts == mapped.labels_["users"]["country"].tolist()
    assert ask(client, "colors", view="films", column="year")["kind"] == "numbers"
    listed = ask(client, "find", text="f0000", limit=3)
    assert [one["id"] for one in listed["found"]] == ["f00000", "f00001", "f00002"]
    assert listed["more"]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("entity", {"view": "film", "id": "x"}, "films"),
        ("entity", {"view": "films", "id": "nobody"}, "nobody"),
        ("entity", {"view": "films", "at": 10**6}, "position"),
        ("entity", {"view": "films"}, "one of id and at"),
        ("entity", {"view": "films", "id": "f00003", "at": 3}, "one of id and at"),
        ("entity", {"view": "films", "at": -1}, "at"),
        ("entity", {"view": "films", "at": 3, "k": 101}, "k"),
        ("find", {"text": "x" * 201}, "text"),
        ("find", {"text": "x", "view": "film"}, "films"),
        ("names", {"positions": {"films": [0] * 501}}, "500"),
        ("names", {"positions": {"films": [10**6]}}, "position"),
        ("names", {"positions": {"film": [0]}}, "films"),
        ("colors", {"view": "films", "column": "colour"}, "colour"),
        ("new", {"view": "users"}, "none"),
        ("new", {"view": "users", "row": {"height": 2}}, "height"),
        ("new", {"view": "users", "row": {"age": "old"}}, "age"),
        ("new", {"view": "users", "links": {"genre": [{"id": "drama"}]}}, "genre"),
    ],
)
def test_bad_requests_are_answered_with_one_sentence(client, path, body, sentence):
    answer = client.post(f"/explore/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()) == ["error"]
    assert sentence in answer.json()["error"]


def test_the_shell_needs_no_token_and_the_data_do(serve_module, mapped_cache):
    token = "a-token-of-some-length"
    client = serve_module(mapped_cache, token=token)
    assert client.get("/").status_code == 200
    assert client.get("/static/main.js").status_code == 200
    assert client.get("/explore/model").status_code == 401
    assert client.get("/explore/points").status_code == 401
    assert client.post("/explore/find", json={"text": "a"}).status_code == 401
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/explore/model", headers=headers).status_code == 200


def test_limits_of_the_server_hold(serve_module, mapped_cache):
    client = serve_module(mapped_cache, limits=Limits(k=3))
    found = ask(client, "entity", view="films", at=3, k=50)
    assert [len(part["entities"]) for part in found["partners"]] == [3, 3]


def test_a_model_without_a_map_has_everything_else(serve_module, cache):
    client = serve_module(cache)
    facts = client.get("/explore/model").json()
    assert (facts["state"], facts["map"], facts["reason"]) == ("missing", None, "it has no map")
    answer = client.get("/explore/points")
    assert answer.status_code == 422
    assert "pmvge explore" in answer.json()["error"]
    assert ask(client, "entity", view="films", at=3)["partners"]
    assert ask(client, "new", view="users", row={"age": 30})["xy"] is None


def test_a_map_is_published_when_it_is_saved_and_dropped_when_it_is_stale(
    serve_module, own_model, other_model, tmp_path
):
    cache = tmp_path / "cache"
    cache.mkdir()
    publish(own_model, cache)
    client = serve_module(cache, poll_seconds=0.01)

    def wait(condition):
        while not condition(facts := client.get("/explore/model").json()):
            pass
        return facts

    assert client.get("/explore/model").json()["map"] is None
    saved_map(PMvGE.load(own_model), own_model, progress=False)
    publish(own_model, cache)
    first = wait(lambda facts: facts["map"])
    for path in own_model.glob("*"):
        if not path.name.startswith("map"):
            path.unlink()
    for path in other_model.iterdir():
        shutil.copy(path, own_model / path.name)
    publish(own_model, cache)
    stale = wait(lambda facts: facts["model"] != first["model"])
    assert stale["map"] is None
    assert stale["reason"] == "its map was computed for another model"


def test_the_state_of_a_map_that_is_computed_is_told(serve_module, cache):
    client = serve_module(cache)
    state = cache / map_keeper.STATE
    try:
        state.write_text("computing 40 %")
        facts = client.get("/explore/model").json()
        assert (facts["state"], facts["reason"]) == ("computing", "40 %")
    finally:
        state.unlink()


def test_the_process_for_a_map_saves_it_or_gives_the_reason(own_model, tmp_path):
    state = tmp_path / "state"
    map_keeper.compute(own_model, state)
    assert not state.exists()
    Map.load(own_model, PMvGE.load(own_model))
    shutil.rmtree(own_model)
    map_keeper.compute(own_model, state)
    text = state.read_text()
    assert text.startswith("failed ")
    assert str(own_model) not in text
