"""How many requests a second does ``pmvge serve`` answer, and how fast?

A model with 100,000 candidates of 64 dimensions is served by one worker, and a bare FastAPI
application that echoes its request by another. The same requests go to both in turn, over loopback,
from one client and from eight: known users by ids, and a new user as a raw row. Requests and time
are bounded. Ratios are over the echo in the same round, medians over rounds. The processor time of
the server for each request does not depend on what else the machine does. "In Python" is
``model.search`` with the same arguments.

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from output import write
from plotly import graph_objects

from pmvge import PMvGE
from pmvge.tables import graph_from_frames, rows_of_records

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
    films = np.concatenate([np.arange(n), rng.integers(n, size=max(0, links - n))])  # all have some
    rows = {
        "user": [f"u{number}" for number in range(users)],
        "age": rng.integers(18, 90, size=users),
        "country": rng.choice(["de", "fr", "jp"], size=users),
    }
    ratings = {
        "user": [f"u{number}" for number in rng.integers(users, size=len(films))],
        "film": [f"f{number}" for number in films],
    }
    graph = graph_from_frames({"users": rows, "films": None}, {("users", "films"): ratings})
    model = PMvGE(n_components=K, max_steps=20, random_state=0, progress=False).fit(graph)
    model.save(folder)
    return model


def cpu_seconds(process: int) -> float:
    """Return the processor time of a process and its children."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    own = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(own[11]) + int(own[12])  # in user mode and in the kernel
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, map(int, children)))


@contextmanager
def started(command: list[str], port: int) -> Iterator[tuple[int, int]]:
    """Start a server and wait until it answers; yield its port and its process."""
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
        yield port, process.pid
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


def measure(
    server: tuple[int, int], body: bytes, clients: int, seconds: float, count: int
) -> dict[str, float]:
    """Return requests a second, quantiles of their times, and the server's processor time."""
    port, process = server
    used, begin = cpu_seconds(process), time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        parts = pool.map(lambda _: client(port, body, begin + seconds, count), range(clients))
        times = [one for part in parts for one in part]
    spent, used = time.perf_counter() - begin, cpu_seconds(process) - used
    p50, p99 = (1e3 * float(value) for value in np.percentile(times, [50, 99]))
    return {
        "per_second": len(times) / spent,
        "p50_ms": p50,
        "p99_ms": p99,
        "cpu_ms": 1e3 * used / len(times),
    }


def median_ms(call: Callable[[], object], repeats: int = 30) -> float:
    """Return the median processor time of a call."""
    call()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return 1e3 * statistics.median(times)


def kinds(model: PMvGE) -> Iterator[tuple[str, dict[str, Any], Callable[[], object]]]:
    """Yield the name of each kind of request, its fields, and the call in Python."""
    for batch in (1, 32):
        ids = [f"u{number}" for number in range(batch)]
        call = partial(model.search, "users", ids=ids, among="films", k=10)
        yield "1 id" if batch == 1 else f"{batch} ids", {"ids": ids}, call
    row = {"age": 31, "country": "jp"}

    def search() -> None:
        _, X = rows_of_records(model.tables_, "users", [row])
        model.search("users", X, among="films", k=10)

    yield "1 raw row", {"rows": [row]}, search


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
    print(f"{options.candidates:,} candidates of {options.components} dimensions, k = 10, 1 worker")
    print("request, clients, then ours (ratio x echo); processor time in Python")
    results: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        make_model(path, options.candidates, options.components)
        model = PMvGE.load(path, memory_map=Path(folder, "maps"))
        ours = [sys.executable, "-m", "pmvge", "serve", str(path), "--port", str(options.ports[0])]
        echo = [sys.executable, "-c", ECHO, str(options.ports[1])]
        with started(ours, options.ports[0]) as server, started(echo, options.ports[1]) as other:
            for kind, fields, call in kinds(model):
                body = json.dumps({"view": "users", "among": "films", **fields, "k": 10}).encode()
                python = median_ms(call)
                for clients in (1, 8):
                    rounds: dict[str, list[dict[str, float]]] = {"pmvge": [], "echo": []}
                    for _ in range(options.rounds):
                        for name, at in (("pmvge", server), ("echo", other)):
                            rounds[name].append(
                                measure(at, body, clients, options.seconds, options.requests)
                            )
                    results.append(summarize(kind, clients, python, rounds))
                    print_row(results[-1])
    write_results(results)


def summarize(
    kind: str, clients: int, python: float, rounds: dict[str, list[dict[str, float]]]
) -> Row:
    """Return medians over rounds: of each server, and of the ratios of the two."""
    row: Row = {"request": kind, "clients": clients, "cpu_in_python_ms": python}
    for key in rounds["pmvge"][0]:
        ours, echo = ([one[key] for one in rounds[name]] for name in ("pmvge", "echo"))
        row |= {key: statistics.median(ours), f"echo_{key}": statistics.median(echo)}
        row[f"{key}_ratio"] = statistics.median(a / b for a, b in zip(ours, echo, strict=True))
    return row


def print_row(row: Row) -> None:
    cells = [f"{row['request']:>9} {row['clients']:2}"]
    for key, digits in (("per_second", 0), ("p50_ms", 2), ("p99_ms", 2), ("cpu_ms", 2)):
        cells.append(
            f"{key} {row[key]:.{digits}f} ({row[f'{key}_ratio']:.3g} x "
            f"{row[f'echo_{key}']:.{digits}f})"
        )
    print("  ".join([*cells, f"in Python {row['cpu_in_python_ms']:.2f}"]), flush=True)


def write_results(results: list[Row]) -> None:
    figure = graph_objects.Figure()
    for clients in (1, 8):
        rows = [row for row in results if row["clients"] == clients]
        figure.add_bar(
            name=f"{clients} clients",
            x=[row["request"] for row in rows],
            y=[row["p50_ms_ratio"] for row in rows],
        )
    figure.update_layout(title="Median time of a search over that of a bare FastAPI echo")
    write("serve", results, figure)


if __name__ == "__main__":
    main()
