"""The training links and labels that are saved with a model. Features are not saved."""

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
from pmvge.errors import InputError, StorageError, choose, one_line, short
from pmvge.evaluation import Results, evaluate_held_out
from pmvge.graph import Links, MultiViewGraph, Pair, compact_weights, merge_links, parse_links
from pmvge.similarities import INNER, Similarity

Labels = Mapping[str, Mapping[str, NDArray[Any]]]  # {view: {name: one string per entity}}
CHUNK = 1 << 20  # links per written or read chunk
# Exceptions that damaged files can raise while they are read.
READ_ERRORS = (
    AttributeError, KeyError, TypeError, ValueError, OSError, OverflowError, pyarrow.ArrowException,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Background:
    """Training links, held-out links and labels of entities.

    Save it with a model (:meth:`PMvGE.save <pmvge.PMvGE.save>`). Searches can then exclude known
    partners, evaluations can exclude the training links, and reports can compare expected with
    observed weights. Labels are not used in training.
    """

    links: Mapping[Pair, Links]  # for training
    held_out: Mapping[Pair, Links] = field(default_factory=dict)  # for validation
    labels: Labels = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        graph: MultiViewGraph,
        held_out: MultiViewGraph | None = None,
        labels: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Self:
        """Return the background of a model that was fitted to ``graph``.

        ``held_out`` is its validation graph. ``labels`` are ``{view: {name: values}}`` with one
        value per entity. Raise InputError for an unknown view or a wrong number of values.
        """
        checked = {}
        for view, columns in (labels or {}).items():
            choose("view", view, graph.view_names, "labels", error=InputError)
            texts = {name: np.asarray(values, dtype=str) for name, values in columns.items()}
            for name, values in texts.items():
                if values.shape != (graph.sizes[view],):
                    raise InputError(
                        f"labels {name!r} of view {view!r}: expected {graph.sizes[view]} values, "
                        f"one per entity, got shape {values.shape}"
                    )
            checked[view] = texts
        held = {pair: _oriented(held_out.links, *pair) for pair in graph.links} if held_out else {}
        present = {pair: links for pair, links in held.items() if links is not None}
        return cls(dict(graph.links), present, checked)

    def of_pair(self, a: str, b: str) -> tuple[Links | None, Links | None]:
        """Return the training links and the held-out links of a view pair, or None.

        Rows are entities of view ``a``, columns of view ``b``.
        """
        return _oriented(self.links, a, b), _oriented(self.held_out, a, b)

    # -- on disk ----------------------------------------------------------------------------

    def parts(self) -> tuple[dict[str, Any], dict[str, storage.Write]]:
        """Return an entry for a manifest, and writers of the files that the entry names."""
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
    """Return the background in a model's folder; None if the model was saved without one.

    Raise StorageError if the folder holds no model or a damaged one.
    """
    manifest, parts = storage.read(Path(folder), "model")
    content = manifest.get("background")
    if content is None:
        return None
    links, held_out = {}, {}
    try:
        for entry in content["links"]:
            a, b = map(str, entry["pair"])
            n, m = map(int, entry["shape"])
            if n * m >= 2**63:  # pairs are numbered with 64-bit integers
                raise ValueError(f"expected fewer than 2^63 pairs, got shape {short((n, m))}")
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
    except READ_ERRORS as error:
        raise StorageError(
            f"{folder}: damaged model: its links or labels: {one_line(error)}"
        ) from error
    return Background(links, held_out, labels)


def _oriented(links: Mapping[Pair, Links], a: str, b: str) -> Links | None:
    if (a, b) in links:
        return links[a, b]
    return links[b, a].transposed() if (b, a) in links else None


def _links_writer(links: Links, held: Links | None) -> storage.Write:
    """Return a writer of the training links followed by the held-out links."""

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
    """Read the training links and the held-out links that follow them in the file."""
    with parquet.ParquetFile(path) as file:
        i, j, held = (
            file.read(columns=[name]).column(name).to_numpy()
            for name in ("row", "column", "held_out")
        )
        w = _joined(
            compact_weights(batch.column("weight").to_numpy())
            for batch in file.iter_batches(CHUNK, columns=["weight"])
        )
    n = len(held) - int(held.sum())
    trained = parse_links("links", (i[:n], j[:n], w[:n]), shape, within, None)
    return trained, parse_links("held-out links", (i[n:], j[n:], w[n:]), shape, within, None)


def _joined(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Concatenate weights; return one broadcast number if all parts are that same number."""
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
    similarity: Similarity = INNER,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    """Return metrics of how well a model predicts the held-out links of its background.

    ``Y`` are the vectors and ``log_alpha`` the log alphas of the model. ``weights`` are its
    ``alpha_weight_``, the total weights of the links given to ``fit``; by default those of all
    training and held-out links.
    """
    if weights is None:
        weights = {
            pair: merge_links(links, background.held_out.get(pair)).total
            for pair, links in background.links.items()
        }
    return evaluate_held_out(
        Y,
        log_alpha,
        background.held_out,
        known=background.links,
        weights=weights,
        similarity=similarity,
        k=k,
        max_pairs=max_pairs,
    )
