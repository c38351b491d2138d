"""How many requests a second does ``pmvge serve`` answer, and how fast?

A model with 100,000 candidates of 64 dimensions is served by one worker, and a bare FastAPI
application that echoes its request by another. The same requests go to both in turn, over loopback,
from one client and from eight. Requests and time are bounded. Ratios are over the echo in the same
run; "search in Python" is ``model.search`` with the same arguments.

    python benchmarks/serve.py
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from output import write
from plotly import graph_objects

from pmvge import MultiViewGraph, PMvGE

ECHO = """
import sys
import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.post("/search")
async def echo(request: dict) -> dict:
    return request


@app.get("/health")
async def health() -> dict:
    return {}


print("Serving", flush=True)
uvicorn.run(app, port=int(sys.argv[1]), http="h11", access_log=False, log_level="warning")
"""
Row = dict[str, Any]


def make_model(folder: Path, n: int, K: int) -> PMvGE:
    """Fit a model of n films for a few steps, and save it."""
    rng = np.random.default_rng(0)
    users, links = 10_000, 20 * 10_000
    ends = (rng.integers(users, size=links), rng.integers(n, size=links))
    ids = {
        "users": [f"u{number}" for number in range(users)],
        "films": [f"f{number}" for number in range(n)],
    }
    graph = MultiViewGraph({"users": users, "films": n}, {("users", "films"): ends}, ids=ids)
    model = PMvGE(n_components=K, max_steps=20, random_state=0, progress=False).fit(graph)
    model.save(folder)
    return model


@contextmanager
def started(command: list[str], port: int) -> Iterator[int]:
    """Start a server and wait until it answers."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", "/health")
                connection.getresponse().read()
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def client(port: int, body: bytes, end: float, count: int) -> list[float]:
    """Send requests one after the other; return how long each took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"}
    times = []
    while len(times) < count and time.perf_counter() < end:
        started = time.perf_counter()
        connection.request("POST", "/search", body, headers)
        answer = connection.getresponse()
        answer.read()
        times.append(time.perf_counter() - started)
        assert answer.status == 200
    connection.close()
    return times


def measure(port: int, body: bytes, clients: int, seconds: float, count: int) -> dict[str, float]:
    """Return requests a second, and the median and the 99th percentile of their times."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        parts = pool.map(lambda _: client(port, body, begin + seconds, count), range(clients))
        times = [one for part in parts for one in part]
    spent = time.perf_counter() - begin
    p50, p99 = np.percentile(times, [50, 99])
    return {"per_second": len(times) / spent, "p50_ms": 1e3 * p50, "p99_ms": 1e3 * p99}


def median_ms(call: Callable[[], object], repeats: int = 30) -> float:
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement, at most")
    parser.add_argument("--requests", type=int, default=400, help="of each client, at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ports", type=int, nargs=2, default=[8765, 8766])
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        make_model(path, options.candidates, options.components)
        model = PMvGE.load(path, memory_map=Path(folder, "maps"))
        ours = [sys.executable, "-m", "pmvge", "serve", str(path), "--port", str(options.ports[0])]
        echo = [sys.executable, "-c", ECHO, str(options.ports[1])]
        with started(ours, options.ports[0]) as port, started(echo, options.ports[1]) as other:
            for batch in (1, 32):
                ids = [f"u{number}" for number in range(batch)]
                request = {"view": "users", "among": "films", "ids": ids, "k": 10}
                body = json.dumps(request).encode()
                python = median_ms(
                    lambda ids=ids: model.search("users", ids=ids, among="films", k=10)
                )
                for clients in (1, 8):
                    rounds: dict[str, list[dict[str, float]]] = {"pmvge": [], "echo": []}
                    for _ in range(options.rounds):
                        for name, at in (("pmvge", port), ("echo", other)):
                            rounds[name].append(
                                measure(at, body, clients, options.seconds, options.requests)
                            )
                    results.append(summarize(batch, clients, python, rounds))
    write_results(results, options.candidates, options.components)


def summarize(
    batch: int, clients: int, python: float, rounds: dict[str, list[dict[str, float]]]
) -> Row:
    """Return medians over rounds, and their ratios to the echo."""
    row: Row = {"batch": batch, "clients": clients, "search_in_python_ms": python}
    for key in ("per_second", "p50_ms", "p99_ms"):
        ours, echo = (statistics.median(one[key] for one in rounds[n]) for n in ("pmvge", "echo"))
        row |= {key: ours, f"echo_{key}": echo, f"{key}_ratio": ours / echo}
    return row


def write_results(results: list[Row], candidates: int, components: int) -> None:
    print(
        f"{candidates:,} candidates of {components} dimensions, k = 10, one worker; echo beside it"
    )
    print("batch clients  requests/s  p50 ms  p99 ms, each (ratio x echo)  search in Python")
    for row in results:
        cells = [f"{row['batch']:5} {row['clients']:7}"]
        for key, digits in (("per_second", 0), ("p50_ms", 2), ("p99_ms", 2)):
            ours, echo = row[key], row[f"echo_{key}"]
            cells.append(f"{ours:7.{digits}f} ({row[f'{key}_ratio']:.2f} x {echo:.{digits}f})")
        print("  ".join([*cells, f"{row['search_in_python_ms']:6.2f} ms"]))
    figure = graph_objects.Figure()
    for clients in (1, 8):
        rows = [row for row in results if row["clients"] == clients]
        figure.add_bar(
            name=f"{clients} clients",
            x=[f"batch of {row['batch']}" for row in rows],
            y=[row["p50_ms_ratio"] for row in rows],
        )
    figure.update_layout(title="Median time of a search over that of a bare FastAPI echo")
    write("serve", results, figure)


if __name__ == "__main__":
    main()
