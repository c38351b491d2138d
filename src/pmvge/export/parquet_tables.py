"""Write the vectors of a model as Parquet tables, one for each view."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow
from numpy.typing import NDArray

from pmvge import storage
from pmvge.export.files import write_table
from pmvge.model import PMvGE, compute_map, entity_texts, linked_views

SIDES: tuple[Literal["query", "candidate"], ...] = ("query", "candidate")


def export_parquet(
    model: PMvGE, folder: str | Path, *, coordinates: bool = True, seed: int = 0
) -> list[Path]:
    """Write one Parquet file for each view, ``VIEW.parquet``; return the paths.

    The columns are ``view``, ``id``, ``name`` (if the view has names), ``x`` and ``y`` (places on
    one map of all views), ``vector`` (y of :meth:`PMvGE.embed <pmvge.PMvGE.embed>`), for each
    linked view ``query_VIEW`` and ``candidate_VIEW`` (:meth:`PMvGE.vectors <pmvge.PMvGE.vectors>`),
    and the labels and columns of :meth:`PMvGE.label <pmvge.PMvGE.label>`. Vectors are lists of a
    fixed size. A label whose name is taken gets an underscore. With ``coordinates=False`` there are
    no ``x`` and ``y``, which take the most time. ``seed`` is that of the map. Raise StorageError if
    a file cannot be written.
    """
    folder = storage.make_folder(Path(folder), "export")
    places = compute_map(model, seed=seed, check=False).xy if coordinates else {}
    paths = []
    for view in model.view_names_:
        table = _table(model, view, places.get(view))
        path = folder / f"{storage.file_name(view)}.parquet"
        paths.append(write_table(path, table))
    return paths


def _table(model: PMvGE, view: str, places: NDArray[np.float32] | None) -> pyarrow.Table:
    """Return the table of a view."""
    n = len(model.ids_[view])
    columns: dict[str, Any] = {
        "view": pyarrow.array(np.full(n, view), pyarrow.string()),
        "id": pyarrow.array(model.ids_[view]),
    }
    if view in model.names_:
        columns["name"] = _texts(model.names_[view])
    if places is not None:
        columns |= {"x": pyarrow.array(places[:, 0]), "y": pyarrow.array(places[:, 1])}
    columns["vector"] = _fixed_lists(model.embeddings_[view])
    for other in linked_views(model.log_alpha_, view):
        for side in SIDES:
            vectors = model.vectors(view, among=other, side=side)
            columns[f"{side}_{other}"] = _fixed_lists(vectors)
    taken = {name.casefold() for name in columns}  # SQL does not distinguish case
    texts = entity_texts(model, view)
    for name in dict.fromkeys([*model.labels_.get(view, {}), *model.columns_.get(view, {})]):
        values = texts[name]
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        columns[name] = _texts(values)
    return pyarrow.table(columns)


def _fixed_lists(vectors: NDArray[Any]) -> pyarrow.Array:
    """Return vectors (n, K) as lists of K float32."""
    flat = pyarrow.array(np.ascontiguousarray(vectors, np.float32).ravel())
    return pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def _texts(values: NDArray[Any]) -> pyarrow.Array:
    """Return texts, with null for empty ones."""
    return pyarrow.array(np.asarray(values, str), pyarrow.string(), mask=np.asarray(values) == "")
