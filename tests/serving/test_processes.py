"""Real servers: workers, signals, broken clients, and a model that is saved under load."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from pmvge import PMvGE

pytestmark = pytest.mark.slow
GOOD = {"view": "users", "among": "films", "ids": ["u00004", "u00007"], "k": 5}
HEAD = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
TOKEN = "0123456789abcdef-secret"


def wanted(model: PMvGE) -> list[list[tuple[str, float]]]:
    ids, mu = model.search("users", ids=GOOD["ids"], among="films", k=5, exclude="self")
    return [
        [(i.item(), float(w)) for i, w in zip(*row, strict=True)]
        for row in zip(ids, mu, strict=True)
    ]


def given(answer: dict[str, object]) -> list[list[tuple[str, float]]]:
    return [
        [(p["id"], p["expected_weight"]) for p in result["partners"]]
        for result in answer["results"]
    ]


def test_a_server_answers_and_stops_on_sigterm(start, film_model, films):
    server = start(film_model)
    answer = server.http.post("/search", json=GOOD)
    assert answer.status_code == 200
    assert given(answer.json()) == wanted(films)
    assert "server" not in answer.headers
    assert server.http.get("/docs").status_code == 200
    page = httpx.get(f"{server.url}/views", headers={"host": "attacker.example"})
    assert page.status_code == 403
    code, errors = server.stop()
    assert code == 0, errors
    assert errors == ""
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.url}/health")


def test_running_requests_are_finished_after_sigterm(start, film_model):
    server = start(film_model)
    body = json.dumps(GOOD).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        size = f"Content-Length: {len(body)}\r\n\r\n".encode()
        client.sendall(HEAD + size + body[:20])  # a request that runs
        threading.Event().wait(0.5)
        server.process.send_signal(signal.SIGTERM)
        threading.Event().wait(1.5)
        client.sendall(body[20:])
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"results"' in answer
    assert server.stop()[0] == 0


def test_a_server_that_is_stopped_while_it_loads_a_model_prints_nothing(start, own_model):
    server = start(own_model)
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    before = set(children.read_text().split())
    threads = Path(f"/proc/{server.process.pid}/task")
    model = PMvGE.load(own_model)
    part = model._fitted.alpha["users", "films"]
    object.__setattr__(part, "log_value", part.log_value + 0.25)
    model.save(own_model)

    def started() -> set[str]:
        found = [path.read_text().split() for path in threads.glob("*/children")]
        return {child for part in found for child in part} - before

    server.wait(lambda: bool(started()))  # the process that loads the new model
    code, errors = server.stop()
    assert (code, errors) == (0, "")


def test_killed_workers_are_replaced(start, own_model, films):
    server = start(own_model, "--workers", 2)
    server.wait(lambda: len(server.workers()) == 2)
    for file in own_model.iterdir():  # a new worker needs nothing of it
        file.unlink()
    for _ in range(2):
        before = server.workers()
        os.kill(before[0], signal.SIGKILL)
        server.wait(lambda before=before: len({*server.workers()} - {*before}) == 1)
    truth = wanted(films)
    server.wait(lambda: "cannot be read" in getattr(server.get("/health"), "text", ""))
    for _ in range(20):
        with httpx.Client(base_url=server.url, timeout=120) as client:
            assert given(client.post("/search", json=GOOD).json()) == truth


def test_workers_end_with_their_supervisor(start, film_model):
    server = start(film_model)
    (worker,) = server.workers()
    server.process.kill()
    server.process.wait()
    server.wait(lambda: not Path(f"/proc/{worker}/stat").exists() or is_zombie(worker))


def is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_model_saved_under_load_is_served_without_a_dropped_or_mixed_answer(
    start, own_model, tmp_path
):
    model = PMvGE.load(own_model)
    truth = {model.checksum_[:16]: wanted(model)}
    versions = []
    for number in range(2):
        part = model._fitted.alpha["users", "films"]
        object.__setattr__(part, "log_value", part.log_value + 1.0)
        model.save(tmp_path / str(number))
        versions.append(PMvGE.load(tmp_path / str(number)))
        truth[versions[-1].checksum_[:16]] = wanted(versions[-1])
    server = start(own_model, "--workers", 2)
    done = threading.Event()

    def ask() -> set[str]:
        seen = set()
        with httpx.Client(base_url=server.url, timeout=120) as client:
            while not done.is_set():
                answer = client.post("/search", json=GOOD)
                assert answer.status_code == 200, answer.text
                content = answer.json()
                assert given(content) == truth[content["model"]]
                assert answer.headers["x-model"] == content["model"]
                seen.add(content["model"])
        return seen

    with ThreadPoolExecutor(2) as pool:
        clients = [pool.submit(ask) for _ in range(2)]
        try:
            for version in versions:
                version.save(own_model)
                label = version.checksum_[:16]
                served: set[str] = set()
                server.wait(lambda label=label: server.http.get("/health").json()["model"] == label)
                while len(served) < 20 and not any(one.done() for one in clients):
                    served.add(str(len(served)))
                    threading.Event().wait(0.02)
        finally:
            done.set()
        seen = set.union(*(one.result() for one in clients))
    assert {version.checksum_[:16] for version in versions} <= seen


def test_without_reload_the_model_stays(start, own_model):
    server = start(own_model, "--no-reload")
    before = server.http.get("/health").json()
    assert before["reload"] == "off"
    model = PMvGE.load(own_model)
    model.label(columns={"users": {"x": ["a"] * 100}}).save(own_model)
    threading.Event().wait(4)
    assert server.http.get("/health").json() == before


def test_broken_and_slow_clients_do_not_stop_others(start, film_model, films):
    server = start(film_model)
    truth = wanted(films)
    slow: list[socket.socket] = []
    for text in (
        b"",
        b"POST /search HT",
        HEAD,
        HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    ):
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(text)
        slow.append(client)
    for text in (
        b"\0\1\2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        HEAD + b"Content-Length: x\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(text)
            answer = client.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 400")
            assert answer.endswith(b'{"error": "the request is not valid HTTP"}')
    for _ in range(20):  # clients that leave before the answer
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            body = json.dumps(GOOD).encode()
            client.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert given(server.http.post("/search", json=GOOD).json()) == truth
    large = server.http.post("/search", content=b" " * (5 << 20))
    assert large.status_code == 413
    for client in slow:
        client.close()
    slow.clear()
    assert given(server.http.post("/search", json=GOOD).json()) == truth
    code, errors = server.stop()
    assert code == 0
    assert "Traceback" not in errors


def test_a_token_is_needed(start, film_model, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    server = start(film_model, "--token-file", tmp_path / "token")
    assert server.http.get("/health").status_code == 200
    assert server.http.post("/search", json=GOOD).status_code == 401
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert server.http.post("/search", json=GOOD, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "expected --token-file, or --insecure"),
        (("--token-file", "/no/such/token"), "--token-file: /no/such/token: cannot be read"),
        (("--host", "203.0.113.7", "--insecure"), "cannot listen there"),
    ],
)
def test_wrong_options_are_one_line(film_model, options, words):
    check_refused(film_model, options, words)


def test_a_folder_without_a_model_is_one_line(tmp_path):
    check_refused(tmp_path, (), "not a pmvge model: there is no model.json")


def check_refused(model, options, words):
    done = subprocess.run(
        [sys.executable, "-m", "pmvge", "serve", str(model), "--port", "0", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert words in lines[0]
