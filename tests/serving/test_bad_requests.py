"""Bad input gets the right status and one sentence, and the server keeps answering."""

from __future__ import annotations

import json
import re

import pytest

GOOD = {"view": "users", "among": "films", "ids": ["u00004"], "k": 3}
ROW = {"age": 31, "country": "jp", "likes": "robot"}
FILM = {"view": "films", "ids": ["f00003"]}
LINKED = {"view": "users", "links": {"films": [{"id": "f00004"}]}}


def is_one_sentence(answer) -> str:
    """Check the form of an error, and that it says nothing about the machine; return it."""
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert list(content) == ["error"]
    text = content["error"]
    assert text
    assert "\n" not in text
    assert not re.search(
        r"Traceback|\.py\b|site-packages|/tmp/|/home/|pydantic|\d+\.\d+\.\d+", text
    )
    assert "server" not in answer.headers
    return str(text)


@pytest.fixture(autouse=True)
def answers_afterwards(client):
    yield
    assert client.post("/search", json=GOOD).status_code == 200


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("/search", {**GOOD, "view": "user"}, "unknown view 'user'.*did you mean 'users'"),
        ("/search", {**GOOD, "among": "cinemas"}, "among: unknown view 'cinemas'"),
        ("/search", {**GOOD, "ids": ["u99999"]}, "'u99999' is not among the 100 ids"),
        ("/search", {**GOOD, "ids": ["u00004", 17]}, "'17' is not among"),
        ("/search", {**GOOD, "ids": [1.5]}, "ids.0: expected an id"),
        ("/search", {**GOOD, "ids": [True]}, "ids.0: expected an id"),
        ("/search", {**GOOD, "ids": [2**70]}, "ids.0: expected an integer of 64 bits"),
        ("/search", {**GOOD, "ids": ["\ud800", "a\0b"]}, "is not among"),
        ("/search", {**GOOD, "ids": []}, "ids: expected 1 to 256 entries, got 0"),
        ("/search", {**GOOD, "ids": "u00004"}, "ids: input should be a valid list"),
        ("/search", {**GOOD, "ids": None}, "expected one of ids, rows and features, got none"),
        ("/search", {**GOOD, "rows": [ROW]}, "got rows and ids"),
        ("/search", {**GOOD, "extra": 1}, "extra: extra inputs are not permitted"),
        ("/search", {**GOOD, "k": 0}, "k: input should be greater than or equal to 1"),
        ("/search", {**GOOD, "k": 2.5}, "k: input should be a valid integer"),
        ("/search", {**GOOD, "k": 10**30}, "k: "),
        ("/search", {**GOOD, "by": "luck"}, "by: input should be 'intensity' or 'similarity'"),
        ("/search", {**GOOD, "show": ["director"]}, "show: view 'films' has the columns 'title'"),
        ("/search", {**GOOD, "among": "genre"}, "were not observed in training"),
        ("/search", {"among": "films", "ids": ["u00004"]}, "view: field required"),
        ("/search", [GOOD], "expected a JSON object"),
        ("/search", "users", "expected a JSON object"),
        ("/embed", {"view": "users", "rows": [{**ROW, "shoes": 44}]}, "unknown column 'shoes'"),
        ("/embed", {"view": "users", "rows": [{**ROW, "age": "old"}]}, "'age'"),
        ("/embed", {"view": "users", "rows": [{**ROW, "age": [1, 2]}]}, "age"),
        ("/embed", {"view": "users", "rows": [{**ROW, "age": {"a": 1}}]}, "rows.0.age: expected"),
        ("/embed", {"view": "users", "rows": [{**ROW, "age": 10**400}]}, "rows.0.age: expected"),
        ("/embed", {"view": "users", "rows": [ROW, {**ROW, "age": "x"}]}, "one type each|age"),
        ("/embed", {"view": "films", "rows": [{"year": 5e140}]}, "finite"),
        ("/embed", {"view": "users", "rows": [{"country": "\ud800"}]}, "Records"),
        ("/embed", {"view": "users", "rows": [{}]}, "expected values of"),
        ("/embed", {"view": "users", "rows": [{"user_id": "u00004"}]}, "got ids alone"),
        ("/embed", {"view": "users", "rows": [{"user_id": "a", **ROW}, ROW]}, "in all rows or in"),
        ("/embed", {"view": "users", "rows": [7]}, "rows.0: input should be a valid dictionary"),
        ("/embed", {"view": "users", "features": [[1, 2]]}, "view 'users'"),
        ("/embed", {"view": "users", "features": [["1", "2"]]}, "expected rows of numbers"),
        ("/embed", {"view": "users", "features": [[1], [1, 2]]}, "rows of one length"),
        ("/embed", {"view": "users", "features": [1]}, "expected rows of numbers"),
        ("/fold-in", {"view": "users", "rows": [ROW], "links": {}}, "links: expected 1 to 256"),
        ("/fold-in", {"view": "users", "rows": [ROW]}, "links: field required"),
        (
            "/fold-in",
            {"view": "users", "rows": [ROW], "links": {"films": [{"id": "nix"}]}},
            "'nix' is not among",
        ),
        (
            "/fold-in",
            {"view": "users", "rows": [ROW], "links": {"films": [{"id": "f00003", "row": 1}]}},
            "row numbers below 1, got 1",
        ),
        (
            "/fold-in",
            {"view": "users", "rows": [ROW], "links": {"films": [{"id": "f00003", "weight": -1}]}},
            "weight: input should be greater than or equal to 0",
        ),
        (
            "/fold-in",
            {"view": "users", "ids": ["u00004"], "links": {"films": [{"id": "f00003"}]}},
            "has features: expected X",
        ),
        (
            "/fold-in",
            {"view": "genre", "links": {"films": [{"id": "f00003", "row": 2**30}]}},
            "expected 1 to 256 entries",
        ),
        (
            "/intensity",
            {"entities": {"view": "users", "ids": ["u00004"]}, "others": {"view": "genre"}},
            "others.expected one of ids, rows and features",
        ),
        (
            "/intensity",
            {
                "entities": {"view": "users", "ids": ["u00004"]},
                "others": {"view": "genre", "ids": ["crime"]},
            },
            "were not observed in training",
        ),
        (
            "/explain",
            {
                "entities": {"view": "users", "ids": ["u00004"]},
                "others": {"view": "films", "ids": ["f00001", "f00002"]},
            },
            "expected as many others as entities",
        ),
        (
            "/explain",
            {"entities": {**LINKED, "rows": [{"user_id": "u00004", **ROW}]}, "others": FILM},
            "expected links of new entities, but 1 rows have ids of the training",
        ),
        (
            "/explain",
            {"entities": {**LINKED, "rows": [ROW], "exposure": 0}, "others": FILM},
            "entities.exposure: input should be greater than 0",
        ),
        (
            "/explain",
            {"entities": {"view": "users", "ids": ["u00004"]}, "others": {**FILM, "links": {}}},
            "others.links: extra inputs are not permitted",
        ),
        ("/similar", {"view": "users", "ids": ["u00004"], "among": "films"}, "among: extra"),
    ],
)
def test_a_wrong_value_gets_422_and_one_sentence(client, path, content, words):
    answer = client.post(path, content=json.dumps(content), headers=JSON)
    assert answer.status_code == 422, answer.text
    assert re.search(words, is_one_sentence(answer)), answer.text


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"view": "users", "ids": [1,]}',
        b'{"view": "users"} {}',
        b"\xff\xfe",
        b'{"view": "\xff"}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
    ],
)
def test_malformed_json_gets_400(client, text):
    answer = client.post("/search", content=text, headers=JSON)
    assert answer.status_code == 400, answer.text
    assert "JSON" in is_one_sentence(answer)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/embed", '{"view": "users", "rows": [{"age": NUMBER}]}'),
        ("/embed", '{"view": "users", "features": [[NUMBER]]}'),
        ("/search", '{"view": "users", "among": "films", "ids": ["u00004"], "k": NUMBER}'),
        (
            "/fold-in",
            '{"view": "genre", "links": {"films": [{"id": "f00003", "weight": NUMBER}]}}',
        ),
        (
            "/fold-in",
            '{"view": "genre", "links": {"films": [{"id": "f00003"}]}, "exposure": NUMBER}',
        ),
    ],
)
def test_numbers_that_are_not_finite_get_422(client, path, text, number):
    answer = client.post(path, content=text.replace("NUMBER", number), headers=JSON)
    assert answer.status_code == 422, answer.text
    is_one_sentence(answer)


def test_nothing_and_other_content_types_are_refused(client):
    for headers in (JSON, {"content-type": "text/plain"}, {}):
        for content in (b"", json.dumps(GOOD).encode()):
            answer = client.post("/search", content=content, headers=headers)
            if headers == JSON and content:
                continue
            assert answer.status_code in (400, 415, 422), answer.text
            is_one_sentence(answer)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/search", 405),
        ("POST", "/health", 405),
        ("DELETE", "/views", 405),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/search/", 404),
        ("GET", "/%2e%2e/model.json", 404),
    ],
)
def test_unknown_paths_and_methods(client, method, path, status):
    answer = client.request(method, path, follow_redirects=False)
    assert answer.status_code == status
    is_one_sentence(answer)


def test_an_unexpected_error_is_logged_and_not_shown(client, monkeypatch, caplog):
    def fail(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("secret /etc/path")

    monkeypatch.setattr("pmvge.serving.routes.partners.best_partners", fail)
    answer = client.post("/search", json=GOOD)
    monkeypatch.undo()
    assert answer.status_code == 500
    assert "secret" not in is_one_sentence(answer)
    assert "secret" in caplog.text
