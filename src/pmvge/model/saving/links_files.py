"""Write and read the links, labels, columns and names that are saved with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet, types

from pmvge import storage
from pmvge.errors import choose, one_line
from pmvge.graph import Links, Pair, compact_weights, parse_links
from pmvge.model.fitted import Labels
from pmvge.model.saving.json_values import expect, get, strings
from pmvge.model.saving.mapped_arrays import Arrays, store_links, store_matrix
from pmvge.model.training_links import TrainingLinks
from pmvge.storage import DamagedValue

CHUNK = 1 << 20  # links per written or read chunk
READ_ERRORS = (pyarrow.ArrowException, OSError, UnicodeDecodeError)  # of Arrow
LINK_COLUMNS = {
    "row": types.is_signed_integer,
    "column": types.is_signed_integer,
    "weight": types.is_floating,
    "held_out": types.is_boolean,
}


class Texts(NamedTuple):
    """Labels and other columns of a model, and which of them are the names."""

    labels: Labels
    columns: Labels
    names: Mapping[str, str]


def links_to_files(
    links: TrainingLinks | None, texts: Texts
) -> tuple[dict[str, Any], dict[str, storage.Write]]:
    """Return an entry for a manifest, and writers of the files that the entry names.

    Without ``links`` the entry has labels and columns only.
    """
    content: dict[str, Any] = {"labels": [], "columns": [], "names": dict(texts.names)}
    files: dict[str, storage.Write] = {}
    if links is not None:
        content["links"] = []
        for number, (pair, trained) in enumerate(links.training.items()):
            name, held = f"links-{number}.parquet", links.held_out.get(pair)
            content["links"].append(
                {"pair": pair, "shape": trained.shape, "held_out": held is not None, "file": name}
            )
            files[name] = _links_writer(trained, held)
    for kind, by_view in (("labels", texts.labels), ("columns", texts.columns)):
        for number, (view, columns) in enumerate(by_view.items()):
            name = f"{kind}-{number}.parquet"
            content[kind].append({"view": view, "file": name})
            files[name] = _table_writer(columns)
    return content, files


def links_from_files(
    content: dict[str, Any] | None,
    parts: storage.Parts,
    sizes: Mapping[str, int],
    arrays: Arrays | None = None,
) -> tuple[TrainingLinks | None, Texts]:
    """Return the links and texts that :func:`links_to_files` was given.

    ``content`` is the entry of the manifest, None if it has none, ``sizes`` are the numbers of
    entities, by view, and ``arrays`` keeps the arrays. Raise DamagedValue or GraphError if the
    entry or a file is not valid.
    """
    arrays = arrays or Arrays()
    if content is None:
        return None, Texts({}, {}, {})
    texts = _read_texts(content, parts, sizes, arrays)
    if "links" not in content:
        return None, texts
    training: dict[Pair, Links] = {}
    held_out: dict[Pair, Links] = {}
    for entry in get(content, "links", list):
        a, b = strings("pair", get(entry, "pair"), 2)
        for view in (a, b):
            choose("view", view, sizes, "links", error=DamagedValue)
        shape = (sizes[a], sizes[b])
        if get(entry, "shape", list) != [*shape]:
            raise DamagedValue(f"links of {(a, b)}: expected shape {shape}, got {entry['shape']}")
        read = cache(partial(_read_links, _file(entry, parts), shape, a == b))
        name = get(entry, "file", str)
        training[a, b] = store_links(arrays, name, read, 0)
        if get(entry, "held_out", bool):
            held_out[a, b] = store_links(arrays, f"held out {name}", read, 1)
    links = TrainingLinks(training, held_out)
    return _store_matrices(links, arrays) if arrays.mapped else links, texts


def _store_matrices(links: TrainingLinks, arrays: Arrays) -> TrainingLinks:
    """Return the links with the matrices that searches use."""
    pairs = {order: None for a, b in links.training for order in ((a, b), (b, a))}
    matrices = {
        (a, b): store_matrix(arrays, f"known {a!r} {b!r}", partial(links.matrix, a, b))
        for a, b in pairs
    }
    return TrainingLinks(links.training, links.held_out, matrices)


def _read_texts(
    content: dict[str, Any], parts: storage.Parts, sizes: Mapping[str, int], arrays: Arrays
) -> Texts:
    """Read labels, columns and names; models of earlier versions have labels only."""
    found: dict[str, dict[str, dict[str, NDArray[Any]]]] = {"labels": {}, "columns": {}}
    for kind, by_view in found.items():
        for entry in expect(kind, content.get(kind, []), list):
            view = choose("view", get(entry, "view", str), sizes, kind, error=DamagedValue)
            texts = _read_labels(_file(entry, parts), sizes[view])
            by_view[view] = {
                column: arrays(f"{kind} {view!r} {column!r}", partial(np.asarray, values))
                for column, values in texts.items()
            }
    names = expect("names", content.get("names", {}), dict)
    for view, column in names.items():
        choose("view", view, sizes, "names", error=DamagedValue)
        known = {**found["labels"].get(view, {}), **found["columns"].get(view, {})}
        choose("column", column, known, "names", error=DamagedValue)
    return Texts(found["labels"], found["columns"], names)


def _file(entry: dict[str, Any], parts: storage.Parts) -> Path:
    return storage.find_part(parts, get(entry, "file", str))


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
    try:
        with parquet.ParquetFile(path) as file:
            _check_types(path, file.schema_arrow, LINK_COLUMNS)
            i, j, held = (
                _values(path, file.read(columns=[name]).column(name))
                for name in ("row", "column", "held_out")
            )
            w = _joined(
                compact_weights(_values(path, batch.column("weight")))
                for batch in file.iter_batches(CHUNK, columns=["weight"])
            )
    except READ_ERRORS as error:
        raise DamagedValue(f"{path.name}: {one_line(error)}") from error
    n = len(held) - int(held.sum())
    trained = parse_links("links", (i[:n], j[:n], w[:n]), shape, within, None)
    return trained, parse_links("held-out links", (i[n:], j[n:], w[n:]), shape, within, None)


def _check_types(
    path: Path, schema: pyarrow.Schema, expected: Mapping[str, Callable[[pyarrow.DataType], bool]]
) -> None:
    found = dict(zip(schema.names, schema.types, strict=True))
    if len(found) != len(schema) or found.keys() != expected.keys():
        raise DamagedValue(f"{path.name}: expected columns {[*expected]}, got {schema.names}")
    for name, is_expected in expected.items():
        if not is_expected(found[name]):
            raise DamagedValue(f"{path.name}: column {name!r}: unexpected type {found[name]}")


def _values(path: Path, column: pyarrow.ChunkedArray | pyarrow.Array) -> NDArray[Any]:
    """Return the values of a column; raise DamagedValue if one is missing."""
    if column.null_count:
        raise DamagedValue(f"{path.name}: expected no empty values, got {column.null_count}")
    if isinstance(column, pyarrow.Array):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(column.to_numpy())


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


def _read_labels(path: Path, n: int) -> dict[str, NDArray[Any]]:
    """Read the labels of one view, each with one string for each of its n entities."""
    try:
        with parquet.ParquetFile(path) as file:
            _check_types(path, file.schema_arrow, dict.fromkeys(file.schema_arrow.names, _is_text))
            table = file.read()
            labels = {
                name: _values(path, table.column(name)).astype(str) for name in table.column_names
            }
    except READ_ERRORS as error:
        raise DamagedValue(f"{path.name}: {one_line(error)}") from error
    if len(table) != n:
        raise DamagedValue(f"{path.name}: expected {n} labels, one per entity, got {len(table)}")
    return labels


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))
