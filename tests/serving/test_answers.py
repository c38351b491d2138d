"""The server gives the answers that Python gives, for the same batch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.serving.publishing import publish
from pmvge.tables import rows_of

ROWS = [
    {"age": 31, "country": "jp", "likes": "I like robot laser colony"},
    {"age": None, "country": "atlantis", "likes": "I like dragon"},
    {"user_id": "u00004", "age": 45, "country": "br", "likes": "I like trial"},
]
LINKS = {"films": [{"id": "f00003", "weight": 5}, {"row": 1, "id": "f00004", "weight": 2.5}]}


def post(client, path, **content):
    answer = client.post(path, json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def frame(rows):
    columns = dict.fromkeys(column for row in rows for column in row)
    return {column: [row.get(column) for row in rows] for column in columns}


def pairs(results, score="expected_weight"):
    return [[(p["id"], p[score]) for p in result["partners"]] for result in results]


def expected(ids, scores):
    return [
        [(a.item(), float(b)) for a, b in zip(*row, strict=True)]
        for row in zip(ids, scores, strict=True)
    ]


def test_search_for_known_entities_is_that_of_python(client, films):
    users = films.ids_["users"][:20].tolist()
    found = post(client, "/search", view="users", among="films", ids=users, k=7)
    ids, mu = films.search("users", ids=users, among="films", k=7, exclude="self")
    assert pairs(found["results"]) == expected(ids, mu)
    assert [result["id"] for result in found["results"]] == users
    assert found["model"] == films.checksum_[:16]
    titles = dict(zip(films.ids_["films"].tolist(), films.names_["films"].tolist(), strict=True))
    weights = films.known_links("users", users, among="films").toarray()
    for row, result in enumerate(found["results"]):
        for partner in result["partners"]:
            assert partner["name"] == titles[partner["id"]]
            at = films.ids_["films"].tolist().index(partner["id"])
            assert partner["known"] == (weights[row, at] > 0)


def test_known_partners_are_left_out(client, films):
    request = {"view": "users", "among": "films", "ids": ["u00004"], "k": 60}
    found = post(client, "/search", **request, exclude_known=True)
    ids, mu = films.search("users", ids=["u00004"], among="films", k=60, exclude="known")
    assert (
        pairs(found["results"])[0] == expected(ids, mu)[0][: len(found["results"][0]["partners"])]
    )
    assert not any(partner["known"] for partner in found["results"][0]["partners"])
    assert len(found["results"][0]["partners"]) < 60


def test_filters_are_those_of_python(client, films):
    some = films.ids_["films"][:30].tolist()
    filters = {"allow": some, "deny": some[:5], "min_weight": 0.56}
    found = post(client, "/search", view="users", among="films", ids=["u00004"], k=20, **filters)
    ids, mu = films.search("users", ids=["u00004"], among="films", k=20, exclude="self", **filters)
    wanted = [pair for pair in expected(ids, mu)[0] if not np.isnan(pair[1])]
    assert pairs(found["results"]) == [wanted]
    assert 0 < len(wanted) < 20
    answer = client.post(
        "/search",
        json={"view": "users", "among": "films", "ids": ["u00004"], "deny": ["nobody"]},
    )
    assert answer.status_code == 422
    assert "'nobody'" in answer.json()["error"]


def test_search_for_raw_rows_is_that_of_python(client, films):
    rows = [{"user_id": f"new{n}", **row} for n, row in enumerate(ROWS)]
    found = post(client, "/search", view="users", among="films", rows=rows, k=5)
    ids, X = rows_of(films.tables_, "users", frame(rows))
    wanted = films.search("users", X, ids=ids, among="films", k=5)
    assert pairs(found["results"]) == expected(*wanted)
    assert [result["id"] for result in found["results"]] == ["new0", "new1", "u00004"]
    assert found["uncalibrated"] == ["new-known"]
    assert any("'country' were not seen" in note for note in found["notes"])
    assert any("1 known from training, 2 new" in note for note in found["notes"])


def test_an_id_in_a_row_gives_the_effects_of_training(client, films):
    one = post(client, "/embed", view="users", rows=ROWS[2:])
    ids, X = rows_of(films.tables_, "users", frame(ROWS[2:]))
    assert one["known"] == [True]
    assert one["vectors"] == films.embed("users", X, ids=ids).tolist()
    assert one["vectors"] != films.embed("users", X).tolist()


def test_search_with_first_links_is_that_of_python(client, films):
    found = post(
        client, "/search", view="users", among="films", rows=ROWS[:2], k=4, links=LINKS,
        exclude_known=True, exposure=0.5,
    )  # fmt: skip
    _, X = rows_of(films.tables_, "users", frame(ROWS[:2]))
    links = {"films": ([0, 1], ["f00003", "f00004"], [5, 2.5])}
    ids, mu = films.search(
        "users", X, among="films", k=4, links=links, exposure=0.5, exclude="known"
    )
    assert pairs(found["results"]) == expected(ids, mu)


def test_entities_are_found_by_name(client, films):
    title = str(films.names_["films"][7])
    same = np.flatnonzero(films.names_["films"] == title)
    assert len(same) == 1
    found = post(client, "/search", view="films", among="users", ids=[title.lower()], k=3)
    assert found["results"][0]["id"] == films.ids_["films"][7]
    assert found["results"][0]["name"] == title


def test_columns_are_shown(client, films):
    found = post(
        client, "/search", view="users", among="films", ids=["u00001"], k=2, show=["title"]
    )
    for partner in found["results"][0]["partners"]:
        assert partner["columns"] == {"title": partner["name"]}


def test_similar_entities_are_those_of_python(client, films):
    some = films.ids_["films"][:5].tolist()
    found = post(client, "/similar", view="films", ids=some, k=6)
    assert pairs(found["results"], "similarity") == expected(*films.similar("films", ids=some, k=6))
    assert found["by"] == "similarity"


@pytest.mark.parametrize("explorer", [False, True])
def test_similar_entities_of_a_view_with_links_have_the_largest_cosines(
    serve, array_model, tmp_path, explorer
):
    """The biases of links within the view do not count, neither here nor in the explorer."""
    publish(array_model, tmp_path)
    client, model = serve(tmp_path), PMvGE.load(array_model)
    Y = model.embeddings_["paper"].astype(float)
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    cosines = Y @ Y.T
    np.fill_diagonal(cosines, -np.inf)
    best = np.argsort(-cosines, axis=1)[:, :6]
    for at in range(5):
        id_ = model.ids_["paper"][at].item()
        if explorer:
            found = post(client, "/explore/entity", view="paper", id=id_, k=6)["similar"]
        else:
            found = post(client, "/similar", view="paper", ids=[id_], k=6)["results"][0]["partners"]
        assert [one["id"] for one in found] == model.ids_["paper"][best[at]].tolist()
        assert [one["similarity"] for one in found] == pytest.approx(
            cosines[at, best[at]], abs=1e-6
        )


def test_vectors_are_those_of_python(client, films):
    found = post(client, "/embed", view="users", ids=["u00001", "u00000"])
    assert found["vectors"] == films.embed("users", ids=["u00001", "u00000"]).tolist()
    assert found["ids"] == ["u00001", "u00000"]
    assert found["known"] == [True, True]
    genre = films.ids_["genre"].tolist()
    found = post(client, "/embed", view="genre", ids=genre)
    assert found["vectors"] == films.embeddings_["genre"].tolist()


def test_folded_in_vectors_are_those_of_python(client, films):
    found = post(client, "/fold-in", view="users", rows=ROWS[:2], links=LINKS)
    _, X = rows_of(films.tables_, "users", frame(ROWS[:2]))
    links = {"films": ([0, 1], ["f00003", "f00004"], [5, 2.5])}
    assert found["vectors"] == films.fold_in("users", X, links=links).tolist()
    assert found["known"] == [False, False]


def test_a_new_entity_without_features_is_folded_in(client, films):
    found = post(client, "/fold-in", view="genre", links={"films": [{"id": "f00003"}]})
    assert found["vectors"] == films.fold_in("genre", links={"films": ([0], ["f00003"])}).tolist()


def test_expected_weights_are_those_of_python(client, films):
    left, right = films.ids_["users"][:4].tolist(), films.ids_["films"][:9].tolist()
    found = post(
        client,
        "/intensity",
        entities={"view": "users", "ids": left},
        others={"view": "films", "ids": right},
    )
    mu = films.intensity("users", None, "films", None, ids=left, ids_other=right)
    assert found["expected_weights"] == mu.tolist()
    assert found["uncalibrated"] == []
    found = post(
        client,
        "/intensity",
        entities={"view": "users", "rows": ROWS[:2]},
        others={"view": "films", "ids": right},
    )
    _, X = rows_of(films.tables_, "users", frame(ROWS[:2]))
    mu = films.intensity("users", X, "films", None, ids_other=right)
    assert found["expected_weights"] == mu.tolist()
    assert found["uncalibrated"] == ["new-known"]


def test_explanations_are_those_of_python(client, films):
    rows = [{"user_id": "new", **ROWS[0]}, ROWS[2]]
    _, X = rows_of(films.tables_, "users", frame(rows))
    found = post(
        client,
        "/explain",
        entities={"view": "users", "rows": rows},
        others={"view": "films", "ids": ["f00003", "f00004"]},
        k=2,
    )["explanations"]
    new = films.explain("users", X[[0]], "films", "f00003", k=2).to_dict()
    known = films.explain("users", "u00004", "films", "f00004", X=X[[1]], k=2).to_dict()
    assert found == [json.loads(json.dumps(new)), json.loads(json.dumps(known))]
    assert found[0]["id"] is None
    for one in found:
        total = sum(part["value"] for part in one["parts"])
        np.testing.assert_allclose(total, np.log(one["expected_weight"]), rtol=1e-6)
    assert any("country" in part["name"] for part in found[0]["parts"])
    both = {
        "entities": {"view": "users", "ids": ["u00004"]},
        "others": {"view": "films", "ids": ["f00003"]},
    }
    (plain,) = post(client, "/explain", **both)["explanations"]
    wanted = films.explain("users", "u00004", "films", "f00003").to_dict()
    assert plain == json.loads(json.dumps(wanted))


def test_explanations_of_first_links_are_those_of_python(client, films):
    rows = [{"user_id": f"new {n}", **ROWS[n]} for n in range(2)] + [ROWS[2]]
    found = post(
        client,
        "/explain",
        entities={"view": "users", "rows": rows, "links": LINKS, "exposure": 0.5},
        others={"view": "films", "ids": ["f00003", "f00004", "f00004"]},
    )["explanations"]
    _, X = rows_of(films.tables_, "users", frame(rows))
    first = [{"films": ([0], ["f00003"], [5])}, {"films": ([0], ["f00004"], [2.5])}]
    wanted = [
        films.explain("users", X[[0]], "films", "f00003", links=first[0], exposure=0.5),
        films.explain("users", X[[1]], "films", "f00004", links=first[1], exposure=0.5),
        films.explain("users", "u00004", "films", "f00004", X=X[[2]]),
    ]
    assert found == [json.loads(json.dumps(one.to_dict())) for one in wanted]
    assert any(part["name"] == "first links: 1 films" for part in found[0]["parts"])
    assert found[0]["linked"] == 5
    (genre,) = post(
        client,
        "/explain",
        entities={"view": "genre", "links": {"films": [{"id": "f00003"}]}},
        others={"view": "films", "ids": ["f00004"]},
    )["explanations"]
    links = {"films": ([0], ["f00003"], [1.0])}
    wanted = films.explain("genre", None, "films", "f00004", links=links).to_dict()
    assert genre == json.loads(json.dumps(wanted))
    assert [entry["id"] for entry in genre["evidence"]] == ["f00003"]


@pytest.fixture(scope="module")
def papers(array_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    publish(array_model, folder)
    return folder, PMvGE.load(array_model)


def test_a_model_of_arrays_takes_features_and_integer_ids(serve, papers):
    cache, model = papers
    client = serve(cache)
    X = [[0.5, -1, 2], [1, 1, 1]]
    found = post(client, "/search", view="paper", among="word", features=X, k=3)
    assert pairs(found["results"]) == expected(*model.search("paper", X, among="word", k=3))
    both = post(client, "/embed", view="paper", features=X, ids=[1007, 5])
    assert both["vectors"] == model.embed("paper", X, ids=[1007, 5]).tolist()
    assert both["known"] == [True, False]
    found = post(client, "/search", view="paper", among="paper", ids=[1007], k=3)
    wanted = model.search("paper", ids=[1007], among="paper", k=3, exclude="self")
    assert pairs(found["results"]) == expected(*wanted)


def test_views_and_health_describe_the_model(client, films):
    found = client.get("/views").json()
    assert set(found["views"]) == set(films.view_names_)
    assert found["views"]["films"]["n"] == 60
    assert found["views"]["films"]["name"] == "title"
    assert found["views"]["users"]["id"] == "user_id"
    assert set(found["views"]["users"]["columns"]) == {"age", "country", "likes"}
    assert ["users", "films"] in found["pairs"]
    health = client.get("/health")
    label = films.checksum_[:16]
    assert health.json() == {"status": "ok", "model": label, "reload": "up to date"}
    assert health.headers["x-model"] == label


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """Return a model of entities with features and the default ids 0, 1, ..., in a folder."""
    rng = np.random.default_rng(0)
    views = {"user": rng.normal(size=(30, 3)), "film": rng.normal(size=(20, 3))}
    graph = MultiViewGraph(views, {("user", "film"): rng.poisson(0.5, size=(30, 20))})
    folder = tmp_path_factory.mktemp("numbered")
    PMvGE(3, max_steps=20, random_state=0, progress=False).fit(graph).save(folder / "model")
    publish(folder / "model", folder / "cache")
    return folder / "cache", views


def test_ids_alone_are_known_entities_also_if_they_are_default(serve, numbered):
    folder, views = numbered
    client, row = serve(folder), views["user"][:1].tolist()
    for query, known in (({"ids": [0]}, True), ({"features": row, "ids": [0]}, False)):
        missing = [] if known else ["new-known"]
        assert post(client, "/embed", view="user", **query)["known"] == [known]
        found = post(client, "/search", view="user", among="film", k=2, **query)
        assert found["uncalibrated"] == missing
        all_films = post(client, "/search", view="user", among="film", k=20, **query)
        linked = [partner["known"] for partner in all_films["results"][0]["partners"]]
        assert any(linked) == known
        sides = {"entities": {"view": "user", **query}, "others": {"view": "film", "ids": [3]}}
        assert post(client, "/intensity", **sides)["uncalibrated"] == missing
