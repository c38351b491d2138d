"""What a model was trained on, as far as it is kept beside it: links and labels, no features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet

from pmvge import storage
from pmvge.errors import InputError, StorageError, one_line, short
from pmvge.evaluation import Results, evaluate_held_out
from pmvge.graph import Links, MultiViewGraph, Pair, merged, one_or_all, parse_links

Labels = Mapping[str, Mapping[str, NDArray[Any]]]  # {view: {name: one string per node}}
CHUNK = 1 << 20  # links written or read together
DAMAGED = (
    AttributeError, KeyError, TypeError, ValueError, OSError, OverflowError, pyarrow.ArrowException,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Background:
    """Known links, and labels that no training has seen.

    With it a search can leave out partners that are known already, an evaluation can leave out the
    links of the training, and a report can compare expected with observed weights.
    """

    links: Mapping[Pair, Links]  # trained on
    held_out: Mapping[Pair, Links] = field(default_factory=dict)  # for validation
    labels: Labels = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        graph: MultiViewGraph,
        held_out: MultiViewGraph | None = None,
        labels: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Self:
        """The background of a model fitted to ``graph``, with ``held_out`` as its validation.

        ``labels`` are ``{view: {name: values}}``, one value for each node.
        """
        words = {}
        for view, columns in (labels or {}).items():
            if view not in graph.sizes:
                raise InputError(f"labels: unknown view {view!r}; they are {graph.view_names}")
            words[view] = {name: np.asarray(values, dtype=str) for name, values in columns.items()}
            for name, values in words[view].items():
                if values.shape != (graph.sizes[view],):
                    raise InputError(
                        f"labels {name!r} of view {view!r}: expected {graph.sizes[view]} values, "
                        f"one for each node, got shape {values.shape}"
                    )
        held = {pair: _oriented(held_out.links, *pair) for pair in graph.links} if held_out else {}
        known = {pair: links for pair, links in held.items() if links is not None}
        return cls(dict(graph.links), known, words)

    def of_pair(self, a: str, b: str) -> tuple[Links | None, Links | None]:
        """The links trained on and the links held out between two views, rows being view ``a``."""
        return _oriented(self.links, a, b), _oriented(self.held_out, a, b)

    # -- on disk ----------------------------------------------------------------------------

    def parts(self) -> tuple[dict[str, Any], dict[str, storage.Write]]:
        """An entry for a manifest, and writers of the files that it names."""
        content: dict[str, Any] = {"links": [], "labels": []}
        files: dict[str, storage.Write] = {}
        for number, (pair, links) in enumerate(self.links.items()):
            name = f"links-{number}.parquet"
            held = self.held_out.get(pair)
            content["links"].append(
                {"pair": pair, "shape": links.shape, "held_out": held is not None, "file": name}
            )
            files[name] = _links_writer(links, held)
        for number, (view, columns) in enumerate(self.labels.items()):
            name = f"labels-{number}.parquet"
            content["labels"].append({"view": view, "file": name})
            files[name] = _table_writer(dict(columns))
        return content, files


def load_background(folder: str | Path) -> Background | None:
    """Read the background from a model's folder; None if the model was saved without."""
    manifest, parts = storage.read(Path(folder), "model")
    content = manifest.get("background")
    if content is None:
        return None
    links, held_out = {}, {}
    try:
        for entry in content["links"]:
            a, b = map(str, entry["pair"])
            n, m = map(int, entry["shape"])
            if n * m >= 2**63:  # pairs are numbered by 64-bit integers
                raise ValueError(f"links of shape {short((n, m))} are too many")
            trained, held = _read_links(parts[entry["file"]], (n, m), a == b)
            links[a, b] = trained
            if entry["held_out"]:
                held_out[a, b] = held
        labels = {}
        for entry in content["labels"]:
            table = parquet.read_table(parts[entry["file"]])
            labels[str(entry["view"])] = {
                name: table.column(name).to_numpy().astype(str) for name in table.column_names
            }
    except DAMAGED as error:
        told = one_line(error)
        raise StorageError(f"{folder}: damaged model: its links or labels: {told}") from error
    return Background(links, held_out, labels)


def _oriented(links: Mapping[Pair, Links], a: str, b: str) -> Links | None:
    if (a, b) in links:
        return links[a, b]
    return links[b, a].transposed() if (b, a) in links else None


def _links_writer(links: Links, held: Links | None) -> storage.Write:
    """Writes the links trained on, then those held out."""

    def write(path: Path) -> None:
        with parquet.ParquetWriter(path, _table(links, slice(0), False).schema) as file:
            for is_held, part in enumerate([links] if held is None else [links, held]):
                for start in range(0, len(part), CHUNK):
                    file.write_table(_table(part, slice(start, start + CHUNK), bool(is_held)))

    return write


def _table(links: Links, part: slice, is_held: bool) -> pyarrow.Table:
    columns = {"row": links.rows[part], "column": links.cols[part], "weight": links.weights[part]}
    columns = {name: np.ascontiguousarray(values) for name, values in columns.items()}
    return pyarrow.table(columns | {"held_out": np.full(len(columns["row"]), is_held)})


def _read_links(path: Path, shape: tuple[int, int], within: bool) -> tuple[Links, Links]:
    """The links trained on and those held out, which come after them."""
    with parquet.ParquetFile(path) as file:
        i, j, held = (
            file.read(columns=[name]).column(name).to_numpy()
            for name in ("row", "column", "held_out")
        )
        w = _joined(
            one_or_all(batch.column("weight").to_numpy())
            for batch in file.iter_batches(CHUNK, columns=["weight"])
        )
    n = len(held) - int(held.sum())
    trained = parse_links("links", (i[:n], j[:n], w[:n]), shape, within, None)
    return trained, parse_links("held-out links", (i[n:], j[n:], w[n:]), shape, within, None)


def _joined(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Weights that come in parts as one array, which stays one number if all parts are this."""
    arrays = [np.empty(0), *parts]
    firsts = np.concatenate([array[:1] for array in arrays])
    n = sum(map(len, arrays))
    if n and all(array.strides == (0,) for array in arrays[1:]) and (firsts == firsts[0]).all():
        return np.broadcast_to(firsts[0], (n,))
    return np.concatenate(arrays)


def _table_writer(columns: Mapping[str, NDArray[Any]]) -> storage.Write:
    return lambda path: parquet.write_table(pyarrow.table(dict(columns)), path)


def evaluate_background(
    Y: Mapping[str, NDArray[Any]],
    log_alpha: Mapping[Pair, float],
    background: Background,
    *,
    weights: Mapping[Pair, float] | None = None,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    """How well the links that were held out of the training are foretold.

    ``weights`` are a model's ``alpha_weight_``; by default all links are taken to have been given
    to ``fit``, as its graph and its validation.
    """
    if weights is None:
        weights = {
            pair: merged(links, background.held_out.get(pair)).total
            for pair, links in background.links.items()
        }
    return evaluate_held_out(
        Y,
        log_alpha,
        background.held_out,
        known=background.links,
        weights=weights,
        k=k,
        max_pairs=max_pairs,
    )
