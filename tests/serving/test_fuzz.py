"""Requests that follow the description of the server, and requests that do not quite.

``make fuzz`` sets PMVGE_FUZZ: up to 38,000 requests, in about eight minutes at most.
"""

from __future__ import annotations

import json
import os
import time

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pmvge.serving.app import build_app
from pmvge.serving.settings import Limits, Settings

FULL = bool(os.environ.get("PMVGE_FUZZ"))
SECONDS = 240.0, 40.0  # of the requests by the description, and of those of each path, in full
BATCH = 50  # requests of one run of hypothesis, in full
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SETTINGS = settings(
    deadline=None,
    derandomize=not FULL,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def send(name, strategy, request, count, seconds):
    """Call ``request`` with ``count`` values of a strategy; in full, until the time is over."""
    end, sent = time.monotonic() + seconds, 0
    while sent < count and (not FULL or time.monotonic() < end):
        part = min(count - sent, BATCH) if FULL else count
        settings(SETTINGS, max_examples=part)(given(strategy)(request))()
        sent += part
    print(f"{name}: {sent:,} requests")  # noqa: T201


@pytest.fixture(scope="module")
def described(cache):
    return schemathesis.openapi.from_asgi(
        "/openapi.json", build_app(Settings(cache, limits=Limits(batch=20, results=500)))
    )


@pytest.mark.slow
def test_no_request_is_a_server_error(described):
    operations = [result.ok() for result in described.get_all_operations()]
    assert len(operations) >= 9
    for operation in operations:

        def ask(case):
            response = case.call(headers={"host": "127.0.0.1"})
            case.validate_response(response, checks=CHECKS)
            if response.status_code >= 400:
                assert list(response.json()) == ["error"]

        seconds = SECONDS[0] / len(operations)
        send(operation.path, operation.as_strategy(), ask, 2000 if FULL else 15, seconds)


# Requests that pass the first checks and reach the model.
KNOWN = {
    "users": ["u00001", "u00004"],
    "films": ["f00001", "f00002"],
    "genre": ["crime", "fantasy"],
    "user\0": ["u00001"],
}
COLUMNS = {
    "users": ["age", "country", "likes", "user_id"],
    "films": ["title", "plot", "year", "film_id"],
}
VIEWS = st.sampled_from([*KNOWN])
CELLS = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=8), st.booleans(),
    st.lists(st.one_of(st.text(max_size=3), st.integers()), max_size=3),
)  # fmt: skip


def ids(view):
    """Return a strategy of ids: mostly known ones, and others."""
    known = st.sampled_from(KNOWN[view])
    return st.one_of(known, known, known, st.text(max_size=5), st.integers(-3, 2**63 - 1))


def rows(view):
    """Return a strategy of rows: mostly plausible ones, and others."""
    names = st.sampled_from([*COLUMNS.get(view, []), "other"])
    odd = st.dictionaries(names, CELLS, max_size=5)
    usual = st.fixed_dictionaries({"age": st.integers(0, 99), "country": st.sampled_from("ab")})
    return st.one_of(usual, odd) if view == "users" else odd


@st.composite
def entities(draw, linked=False):
    view = draw(VIEWS)
    found = {"view": view}
    kind = draw(st.sampled_from(["ids", "ids", "rows", "rows", "features", "both", "none"]))
    if kind in ("ids", "both"):
        found["ids"] = draw(st.lists(ids(view), min_size=1, max_size=3))
    if kind in ("rows", "both"):
        found["rows"] = draw(st.lists(rows(view), min_size=1, max_size=3))
    if kind == "features":
        found["features"] = draw(st.lists(st.lists(st.floats(-9, 9), max_size=3), max_size=3))
    if linked and draw(st.integers(0, 2)) == 0:
        other = draw(VIEWS)
        link = st.fixed_dictionaries(
            {"id": ids(other)}, optional={"row": st.integers(0, 3), "weight": st.floats(0, 1e300)}
        )
        found["links"] = {other: draw(st.lists(link, max_size=4))}
    if linked and draw(st.integers(0, 9)) == 0:
        found["exposure"] = draw(st.floats(1e-300, 1e300))
    return found


MORE = st.fixed_dictionaries(
    {"among": VIEWS},
    optional={
        "k": st.one_of(st.integers(1, 9), st.integers(1, 2**70)),
        "by": st.sampled_from(["intensity", "similarity"]),
        "exclude_known": st.booleans(),
        "show": st.lists(st.sampled_from(["title", "year", ""]), max_size=2),
    },
)
BOTH = st.fixed_dictionaries({"entities": entities(), "others": entities()})
LINK = st.fixed_dictionaries(
    {"id": st.sampled_from(KNOWN["films"])}, optional={"weight": st.floats(0, 1e300)}
)
LINKED = st.fixed_dictionaries(
    {
        "view": st.just("users"),
        "rows": st.lists(rows("users"), min_size=1, max_size=2),
        "links": st.fixed_dictionaries({"films": st.lists(LINK, min_size=1, max_size=3)}),
    },
    optional={"exposure": st.floats(1e-300, 1e300)},
)
EXPLAINED = st.fixed_dictionaries(
    {
        "entities": LINKED | entities(True),
        "others": st.just({"view": "films", "ids": ["f00001"]}) | entities(),
    }
)
USUAL = st.fixed_dictionaries(
    {
        "view": st.just("users"),
        "among": st.just("films"),
        "ids": st.lists(st.sampled_from(KNOWN["users"]), min_size=1, max_size=3),
    },
    optional={"k": st.integers(1, 70), "exclude_known": st.booleans()},
)
REQUESTS = {
    "/search": USUAL | st.builds(lambda a, b: {**a, **b}, entities(True), MORE),
    "/similar": entities(True),
    "/embed": entities(),
    "/fold-in": LINKED | entities(True),
    "/intensity": BOTH,
    "/explain": EXPLAINED,
}


@pytest.mark.slow
@pytest.mark.parametrize("path", REQUESTS)
def test_requests_that_reach_the_model_are_answered_or_refused(client, path):
    statuses: list[int] = []

    def ask(content):
        text = json.dumps(content)  # with NaN and Infinity, which Python's JSON has
        answer = client.post(path, content=text, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 422), (content, answer.text)
        statuses.append(answer.status_code)

    send(path, REQUESTS[path], ask, 3000 if FULL else 60, SECONDS[1])
    assert set(statuses) == {200, 422}
