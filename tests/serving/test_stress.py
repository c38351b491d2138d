"""A server with killed workers, broken clients and saves in between gives no wrong answer.

``make stress`` sets PMVGE_STRESS: ten minutes. PMVGE_STRESS_SECONDS sets another duration.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from pmvge import PMvGE

pytestmark = pytest.mark.slow
FULL = 600.0 if os.environ.get("PMVGE_STRESS") else 30.0
SECONDS = float(os.environ.get("PMVGE_STRESS_SECONDS") or FULL)
GROWTH = 32 << 20  # bytes that a worker may need more at the end than at first
HEAD = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
REQUESTS: list[tuple[str, dict[str, Any], int]] = [
    ("/search", {"view": "users", "among": "films", "ids": ["u00004", "u00007"], "k": 5}, 200),
    ("/search", {"view": "users", "among": "films", "ids": ["u00001"], "exclude_known": True}, 200),
    ("/search", {"view": "users", "among": "films", "rows": [{"age": 31, "country": "jp"}]}, 200),
    ("/similar", {"view": "films", "ids": ["f00001"], "k": 3}, 200),
    ("/embed", {"view": "users", "ids": ["u00009"]}, 200),
    ("/fold-in", {"view": "genre", "links": {"films": [{"id": "f00003"}]}}, 200),
    ("/search", {"view": "users", "among": "films", "ids": ["nobody"]}, 422),
    ("/search", {"view": "users", "among": "films", "ids": ["u00001"], "k": 10**6}, 422),
]


def versions_of(model: PMvGE, folder: Path, count: int) -> list[PMvGE]:
    """Save models with other expected weights, and load them."""
    found = []
    for number in range(count):
        part = model._fitted.alpha["users", "films"]
        object.__setattr__(part, "log_value", part.log_value + 0.25)
        model.save(folder / str(number))
        found.append(PMvGE.load(folder / str(number)))
    return found


def truth_of(serve: Callable[..., Any], models: list[Path], folder: Path) -> dict[Any, Any]:
    """Return the right answer of each model to each request, from an application alone."""
    from pmvge.serving.publishing import publish

    truth = {}
    for number, path in enumerate(models):
        cache = folder / f"cache {number}"
        cache.mkdir()
        publish(path, cache)
        client = serve(cache)
        for at, (name, content, status) in enumerate(REQUESTS):
            answer = client.post(name, json=content)
            assert answer.status_code == status
            label = client.get("/health").json()["model"]
            truth[label, at] = {k: v for k, v in answer.json().items() if k != "model"}
    return truth


def private_size(process: int) -> int:
    """Return the memory of a process that it shares with no other, in bytes."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    parts = re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB", text, re.MULTILINE)
    return 1024 * sum(map(int, parts))


def test_no_wrong_answer_and_no_growth(start, serve, own_model, tmp_path):
    models = versions_of(PMvGE.load(own_model), tmp_path, 3)
    truth = truth_of(serve, [tmp_path / str(number) for number in range(3)], tmp_path)
    labels = {label for label, _ in truth}
    models[0].save(own_model)
    server = start(own_model, "--workers", 2, "--max-body", 1 << 16)
    server.wait(lambda: len(server.workers()) == 2)
    survivor = server.workers()[0]
    counts: Counter[str] = Counter()
    end = time.monotonic() + SECONDS
    over = threading.Event()

    def ask(seed: int) -> None:
        choose = random.Random(seed)
        while not over.is_set():
            with httpx.Client(base_url=server.url, timeout=120) as client:
                for _ in range(choose.randrange(1, 30)):
                    at = choose.randrange(len(REQUESTS))
                    path, content, status = REQUESTS[at]
                    try:
                        answer = client.post(path, json=content)
                    except httpx.TransportError:
                        counts["dropped"] += 1  # by a worker that was killed
                        break
                    if answer.status_code in (429, 503):
                        counts["busy"] += 1
                        continue
                    assert answer.status_code == status, answer.text
                    got = answer.json()
                    label = got.pop("model", None)
                    if status == 200:
                        assert got == truth[label, at], (label, path)
                        counts[label] += 1
                    else:
                        assert list(got) == ["error"]
                        counts["refused"] += 1

    def break_things() -> None:
        choose = random.Random(0)
        body = json.dumps(REQUESTS[0][1]).encode()
        size = f"Content-Length: {len(body)}\r\n\r\n".encode()
        texts = (b"", b"\0" * 99, HEAD, HEAD + size, HEAD + size + body[:9], HEAD + size + body)
        texts += (HEAD + b"Content-Length: 99999999\r\n\r\n" + b"x" * 70_000,)
        slow: list[socket.socket] = []
        while not over.wait(0.05):
            try:
                client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
                client.sendall(choose.choice(texts))
            except OSError:
                continue
            slow.append(client)
            counts["broken"] += 1
            if len(slow) > 30:
                slow.pop(choose.randrange(len(slow))).close()
        for client in slow:
            client.close()

    def wait_for(label: str) -> None:
        while not over.wait(0.2):
            answer = server.get("/health")
            if answer is not None and answer.json()["model"] == label:
                return

    def change() -> None:
        choose, number = random.Random(1), 0
        while not over.wait(choose.uniform(0, min(10.0, SECONDS / 10))):
            number += 1
            if number % 3 != 1:
                models[number % len(models)].save(own_model)
                counts["saves"] += 1
                wait_for(models[number % len(models)].checksum_[:16])
            else:
                for process in {*server.workers()} - {survivor}:
                    os.kill(process, signal.SIGKILL)
                    counts["kills"] += 1
            if choose.random() < 0.2:
                (own_model / "model.json").unlink()
                counts["removed"] += 1

    with ThreadPoolExecutor(6) as pool:
        work = [pool.submit(ask, seed) for seed in range(3)]
        work += [pool.submit(break_things), pool.submit(change)]
        try:
            before = 0
            while time.monotonic() < end and not any(one.done() for one in work):
                time.sleep(0.5)
                if not before and time.monotonic() > end - 2 * SECONDS / 3:
                    before = private_size(survivor)
            after = private_size(survivor)
        finally:
            over.set()
        for one in work:
            one.result()
    assert survivor in server.workers()
    models[2].save(own_model)
    last = models[2].checksum_[:16]
    server.wait(lambda: server.http.get("/health").json()["model"] == last)
    assert after - before <= GROWTH, (before, after, counts)
    assert counts["kills"], counts
    assert counts["saves"], counts
    assert len([label for label in labels if counts[label]]) > 1, counts
    answers = sum(counts[label] for label in labels)
    assert counts["dropped"] <= 4 * counts["kills"] + 2, counts
    assert answers > 10 * SECONDS / 30, counts
    code, errors = server.stop()
    assert code == 0
    assert "Traceback" not in errors
