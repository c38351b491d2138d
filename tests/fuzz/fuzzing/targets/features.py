"""Features in files: ``.npy`` files, Parquet files of vectors, and the feature cache."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from fuzzing.target import Target, check_finite
from fuzzing.targets.tables import check_tables, make_csv
from pmvge import MultiViewGraph
from pmvge.tables import (
    features_from_parquet,
    ids_from_parquet,
    open_features,
    read_project,
    read_tables,
)


def make_npy(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "wide.npy", rng.normal(size=(4, 3)).astype(np.float32))
    np.save(folder / "half.npy", rng.normal(size=(4, 2, 2)).astype(np.float16))


def make_vectors(folder: Path) -> None:
    vectors = pyarrow.array([[0.5, 1.0], [2.0, -1.0], [3.0, 0.0]], pyarrow.list_(pyarrow.float32()))
    fixed = pyarrow.array([[0.5, 1.0], [2.0, -1.0]], pyarrow.list_(pyarrow.float64(), 2))
    ids = {"id": ["a", "b", "c"], "vector": vectors}
    parquet.write_table(pyarrow.table(ids), folder / "1.parquet", compression="none")
    table = pyarrow.table({"id": ["d", "e"], "vector": fixed})
    parquet.write_table(table, folder / "2.parquet", compression="snappy")


def make_cached(folder: Path) -> None:
    """Write tables, and the feature cache that an earlier run has made from them."""
    make_csv(folder)
    (folder / "spill").mkdir()
    read_tables(read_project(folder / "pmvge.toml"), spill=folder / "spill")


def read_npy(folder: Path, output: Path) -> None:
    for name in ("wide.npy", "half.npy"):
        X = open_features(folder / name)
        assert X.ndim >= 2
        graph = MultiViewGraph({"a": X, "b": 2}, {("a", "b"): ([0], [1])})
        check_finite(graph.views["a"])


def read_vectors(folder: Path, output: Path) -> None:
    ids = ids_from_parquet(folder, "id")
    for _ in range(2):  # the second pass opens the file that the first has written
        X = features_from_parquet(folder, output / "X.npy", columns="vector")
        check_finite(X)
        assert len(ids) == len(X)


def read_metadata(folder: Path, output: Path) -> None:
    """Read the cache with metadata that matches the files but is otherwise damaged."""
    for path in (folder / "spill").iterdir():
        (output / path.name).write_bytes(path.read_bytes())
    # Users are not cached: their text is sparse, and sparse rows are not mapped.
    source, features = folder / "films.csv", output / "films.npy"
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        metadata = json.loads((output / "films.npy.json").read_bytes())
        metadata["origin"]["files"] = [[str(source), *_state(source)]]
        metadata["file"] = _state(features)
        (output / "films.npy.json").write_text(json.dumps(metadata))
    check_tables(read_tables(read_project(folder / "pmvge.toml"), spill=output))


def _state(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


METADATA = ("spill/*.json",)
TARGETS = [
    Target("npy", make_npy, read_npy),
    Target("vectors in parquet", make_vectors, read_vectors),
    Target("cache metadata", make_cached, read_metadata, ("spill/*",), METADATA, share=0.5),
]
