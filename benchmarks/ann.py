"""Compare libraries for approximate search: recall, times, size, licence.

`python benchmarks/ann.py` needs usearch, hnswlib and faiss-cpu; those that are not installed are
left out. The candidates are those of a model that is fitted to a simulated graph: 1,000 users and m
films with 16 features from an 8-dimensional truth, K = 64, with effects. One thread,
processor time.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from output import RESULTS

from pmvge import MultiViewGraph, PMvGE
from pmvge.search import top_k
from pmvge.simulation import simulate

K, TRUTH, COLUMNS, USERS = 64, 8, 16, 1000
LINKS, BLOCK = 2_000_000, 50
NEIGHBOURS, EF_BUILD, EFS = 16, 128, (32, 64, 128, 256)
QUERIES, REPEATS = 200, 3
PACKAGES = {"usearch": "usearch", "hnswlib": "hnswlib", "faiss": "faiss-cpu"}


def fitted(m: int, steps: int, seed: int = 0) -> PMvGE:
    """Return a model that is fitted to a simulated graph with m candidates."""
    rng = np.random.default_rng(seed)
    z = {view: rng.normal(size=(n, TRUTH)) for view, n in (("user", USERS), ("film", m))}
    mix = rng.normal(size=(TRUTH, COLUMNS)) / np.sqrt(TRUTH)
    X = {v: (Z @ mix + 0.3 * rng.normal(size=(len(Z), COLUMNS))).astype(np.float32)
         for v, Z in z.items()}  # fmt: skip
    truth = {v: torch.from_numpy((0.8**0.5 * Z).astype(np.float32)) for v, Z in z.items()}
    # E exp<a, z> = exp(|a|^2 / 2) for z ~ N(0, I): the total weight is about LINKS.
    total = np.exp(0.8 / 2 * truth["user"].square().sum(1).double().numpy()).sum() * m
    rows, cols, weights = [], [], []
    for start in range(0, USERS, BLOCK):  # few users at a time: the simulation holds all pairs
        part = slice(start, start + BLOCK)
        drawn = simulate(
            {"user": X["user"][part], "film": X["film"]},
            {"user": lambda x, part=part: truth["user"][part], "film": lambda x: truth["film"]},
            {("user", "film"): LINKS / total},
            rng,
            draw="links",
        ).links["user", "film"]
        rows.append(drawn.rows + start)
        cols.append(drawn.cols)
        weights.append(drawn.weights)
    links = tuple(map(np.concatenate, (rows, cols, weights)))
    graph = MultiViewGraph(X, {("user", "film"): links})
    model = PMvGE(K, max_steps=steps, hidden_sizes=(64,), random_state=seed, progress=False)
    return model.fit(graph, hold_out=0)


def augmented(C: np.ndarray) -> np.ndarray:
    """Return the candidates with one more coordinate, so that all have the same norm."""
    squares = np.einsum("ij,ij->i", C, C)
    return np.hstack([C, np.sqrt(squares.max() - squares)[:, None]]).astype(np.float32)


class Usearch:
    name, licence = "usearch", "Apache-2.0"

    def build(self, C: np.ndarray) -> None:
        from usearch.index import Index

        self.index = Index(ndim=C.shape[1], metric="cos", dtype="f32", connectivity=NEIGHBOURS,
                           expansion_add=EF_BUILD)  # fmt: skip
        self.index.add(np.arange(len(C)), C, threads=1)

    def search(self, Q: np.ndarray, k: int, ef: int) -> np.ndarray:
        self.index.expansion_search = ef
        return self.index.search(Q, k, threads=1).keys.reshape(len(Q), -1).astype(np.int64)

    def save(self, path: str) -> None:
        self.index.save(path)


class Hnswlib:
    name, licence = "hnswlib", "Apache-2.0"

    def build(self, C: np.ndarray) -> None:
        import hnswlib

        self.index = hnswlib.Index(space="cosine", dim=C.shape[1])
        self.index.init_index(len(C), M=NEIGHBOURS, ef_construction=EF_BUILD, random_seed=0)
        self.index.set_num_threads(1)
        self.index.add_items(C)

    def search(self, Q: np.ndarray, k: int, ef: int) -> np.ndarray:
        self.index.set_ef(max(ef, k))
        return self.index.knn_query(Q, k)[0].astype(np.int64)

    def save(self, path: str) -> None:
        self.index.save_index(path)


class Faiss:
    name, licence = "faiss", "MIT"

    def build(self, C: np.ndarray) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = faiss.IndexHNSWFlat(C.shape[1], NEIGHBOURS)
        self.index.hnsw.efConstruction = EF_BUILD
        self.index.add(C)  # the norms are equal: smallest distance, largest inner product

    def search(self, Q: np.ndarray, k: int, ef: int) -> np.ndarray:
        self.index.hnsw.efSearch = ef
        return self.index.search(Q, k)[1]

    def save(self, path: str) -> None:
        import faiss

        faiss.write_index(self.index, path)


def measure(library: Any, C: np.ndarray, Q: np.ndarray, k: int = 10) -> dict[str, Any]:
    """Return recall@k and the time of a query by ef, the build time, and the file size."""
    exact_times = []
    for _ in range(REPEATS):
        start = time.process_time()
        truth, _ = top_k(Q, C, k)
        exact_times.append((time.process_time() - start) / len(Q))
    exact = statistics.median(exact_times)
    more, queries = augmented(C), np.hstack([Q, np.zeros((len(Q), 1), np.float32)])
    start = time.process_time()
    library.build(more)
    built = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        library.save(f"{folder}/index")
        size = Path(f"{folder}/index").stat().st_size
    found = {
        "library": library.name,
        "version": importlib.metadata.version(PACKAGES[library.name]),
        "licence": library.licence,
        "candidates": len(C),
        "dimensions": C.shape[1],
        "build_seconds": built,
        "bytes_per_candidate": size / len(C),
        "exact_ms": 1e3 * exact,
        "ef": {},
    }
    for ef in EFS:
        times = []
        for _ in range(REPEATS):
            start = time.process_time()
            got = library.search(queries, k, ef)
            times.append((time.process_time() - start) / len(Q))
        hits = sum(len(np.intersect1d(a, b)) for a, b in zip(truth, got, strict=True))
        seconds = statistics.median(times)
        found["ef"][ef] = {"recall": hits / truth.size, "ms": 1e3 * seconds,
                           "share_of_exact": seconds / exact}  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = fitted(options.candidates, options.steps)
    rng = np.random.default_rng(0)
    Q = model.vectors("user", among="film")[rng.permutation(USERS)[:QUERIES]]
    C = model.vectors("film", among="user", side="candidate")
    results = []
    for library in (Usearch(), Hnswlib(), Faiss()):
        try:
            found = measure(library, C, Q)
        except ImportError as error:
            print(f"left out: {error}")
            continue
        results.append(found)
        print(f"{found['library']} {found['version']} ({found['licence']}): built in "
              f"{found['build_seconds']:.0f} s, {found['bytes_per_candidate']:.0f} bytes a "
              f"candidate, exact {found['exact_ms']:.2f} ms")  # fmt: skip
        for ef, row in found["ef"].items():
            print(f"  ef {ef:4}: recall@10 {row['recall']:.3f}, {row['ms']:.3f} ms, "
                  f"{row['share_of_exact']:.3f} of exact")  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ann.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
