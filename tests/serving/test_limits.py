"""Limits on the size of requests and answers, and on concurrent work."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pmvge.serving.errors import Refused
from pmvge.serving.limits import BodyLimit, WorkQueue
from pmvge.serving.settings import Limits

GOOD = {"view": "users", "among": "films", "ids": ["u00004"], "k": 3}


def test_a_large_body_gets_413_before_it_is_parsed(serve):
    client = serve(limits=Limits(body=1000))
    assert client.post("/search", json=GOOD).status_code == 200
    answer = client.post("/search", content=b"[" * 1001)
    assert answer.status_code == 413
    assert answer.json() == {"error": "expected a request of at most 1,000 bytes"}
    parts = (b"[" * 100 for _ in range(50))  # without a content length
    assert client.post("/search", content=parts).status_code == 413
    assert client.post("/search", json=GOOD).status_code == 200


@pytest.mark.parametrize(
    ("limits", "change", "words"),
    [
        ({"batch": 2}, {"ids": ["u00001", "u00002", "u00003"]}, "ids: expected 1 to 2 entries"),
        ({"k": 2}, {}, "k: expected at most 2, got 3"),
        ({"results": 5}, {"ids": ["u00001", "u00002"]}, "at most 5 results, got 2 entities"),
    ],
)
def test_a_large_batch_gets_422(serve, limits, change, words):
    client = serve(limits=Limits(**limits))
    answer = client.post("/search", json={**GOOD, **change})
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_a_large_table_of_weights_gets_422(serve):
    client = serve(limits=Limits(results=5))
    request = {
        "entities": {"view": "users", "ids": ["u00001", "u00002"]},
        "others": {"view": "films", "ids": ["f00001", "f00002", "f00003"]},
    }
    answer = client.post("/intensity", json=request)
    assert answer.status_code == 422
    assert "at most 5 results" in answer.json()["error"]


def test_too_many_requests_get_429_and_others_are_answered(serve, monkeypatch):
    client = serve(limits=Limits(running=1, waiting=1))
    started, go_on = threading.Event(), threading.Event()
    from pmvge.serving.routes import partners

    find = partners.best_partners

    def slow(*arguments, **options):
        started.set()
        assert go_on.wait(60)
        return find(*arguments, **options)

    monkeypatch.setattr(partners, "best_partners", slow)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(client.post, "/search", json=GOOD)
        assert started.wait(60)
        second = pool.submit(client.post, "/search", json=GOOD)
        while "pmvge_waiting 1" not in client.get("/metrics").text:
            pass
        third = client.post("/search", json=GOOD)
        assert third.status_code == 429
        assert third.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200  # needs no thread
        go_on.set()
        assert first.result().status_code == second.result().status_code == 200


def test_a_request_that_waits_too_long_gets_503():
    async def run() -> None:
        work = WorkQueue(Limits(running=1, wait_seconds=0.05))
        release = threading.Event()
        first = asyncio.create_task(work.run(release.wait, 60))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await work.run(int)
        assert refused.value.status == 503
        assert refused.value.headers["Retry-After"]
        release.set()
        assert await first
        assert await work.run(int) == 0
        assert work.running == work.waiting == 0
        work.close()

    asyncio.run(run())


def test_a_cancelled_request_keeps_its_slot_until_its_work_ends():
    async def run() -> None:
        work = WorkQueue(Limits(running=1, waiting=0))
        release = threading.Event()
        first = asyncio.create_task(work.run(release.wait, 60))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        with pytest.raises(Refused) as refused:
            await work.run(int)
        assert refused.value.status == 429
        release.set()
        while work.running:
            await asyncio.sleep(0.01)
        assert await work.run(int) == 0
        work.close()

    asyncio.run(run())


def ask(limits: Limits, messages: list[dict[str, object]]) -> list[dict[str, object]]:
    """Send messages of a client to an application behind a limit; return what is sent back."""
    sent: list[dict[str, object]] = []

    async def application(scope, receive, send):
        sent.append(await receive())

    async def receive():
        if not messages:
            await asyncio.sleep(60)
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/search", "headers": []}
    asyncio.run(BodyLimit(application, limits)(scope, receive, send))
    return sent


def test_a_slow_request_gets_408():
    part = {"type": "http.request", "body": b"{", "more_body": True}
    start, body = ask(Limits(body_seconds=0.05), [part])
    assert start["status"] == 408
    assert list(json.loads(body["body"])) == ["error"]


def test_the_application_gets_the_parts_as_one_body():
    parts = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.request", "body": b"}", "more_body": False},
    ]
    assert ask(Limits(), parts) == [{"type": "http.request", "body": b"{}", "more_body": False}]


def test_a_client_that_leaves_gets_no_answer():
    part = {"type": "http.request", "body": b"{", "more_body": True}
    assert ask(Limits(), [part, {"type": "http.disconnect"}]) == []
