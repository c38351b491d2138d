"""What the explorer computes once for a model: its map, its texts, its colours."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import numpy as np

from pmvge.errors import InputError, StorageError, choose
from pmvge.model import Map, PMvGE, entity_texts
from pmvge.serving.explorer.coloring import color_codes
from pmvge.serving.explorer.finding import Finder
from pmvge.serving.live_model import Served
from pmvge.tables import feature_columns

VALUES = 300  # categories that a form suggests
ABOUT = 60  # characters of a column that stand for a name
EXAMPLES = 3  # entities of a view to start with


class Atlas:
    """The map and the texts of one served model. Threads may share it."""

    def __init__(self, served: Served) -> None:
        self.served, self.model = served, served.model
        self._lock = threading.RLock()
        self._finder: Finder | None = None
        self._colors: dict[tuple[str, str], dict[str, Any]] = {}
        self.problem = ""
        self.map = self._load()
        self.points = b""
        if self.map is not None:
            rows = [self.map.xy[view] for view in self.model.view_names_]
            self.points = np.concatenate(rows).astype("<f4").tobytes()
        self.id = hashlib.sha256(self.points).hexdigest()[:16] if self.points else ""
        self.views = [_describe(served, view) for view in self.model.view_names_]

    def _load(self) -> Map | None:
        try:
            return Map.load(self.served.folder, self.model)
        except StorageError as error:  # its message has a path
            stale = "is stale" in str(error)
            self.problem = "its map was computed for another model" if stale else "it has no map"
            return None

    @property
    def finder(self) -> Finder:
        """The texts of all entities, to look for parts of them."""
        with self._lock:
            self._finder = self._finder or Finder(self.model)
            return self._finder

    def colors(self, view: str, column: str) -> dict[str, Any]:
        """Return the colours of a view by a column, computed once."""
        texts = entity_texts(self.model, view)
        choose("column", column, texts, f"view {view!r}", error=InputError)
        with self._lock:
            if (view, column) not in self._colors:
                self._colors[view, column] = color_codes(np.asarray(texts[column]))
            return self._colors[view, column]

    def found(self, view: str, at: int) -> dict[str, Any]:
        """Return an entity of a view, with its position."""
        return describe_entity(self.model, view, at)


class Atlases:
    """The atlas of the model that is served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Atlas | None = None

    def of(self, served: Served) -> Atlas:
        """Return the atlas of a model; it is made at the first call."""
        with self._lock:
            if self._last is None or self._last.served is not served:
                self._last = Atlas(served)
            return self._last


def describe_entity(model: PMvGE, view: str, at: int) -> dict[str, Any]:
    """Return an entity with its position, and its name or else some values of its columns."""
    found = {"view": view, "at": at, "id": model.ids_[view][at].item()}
    if view in model.names_:
        return {**found, "name": str(model.names_[view][at])}
    texts = entity_texts(model, view)
    labels_first = [*dict.fromkeys([*model.labels_.get(view, {}), *texts])]
    values = [str(texts[column][at])[:ABOUT] for column in labels_first[:3]]
    about = " · ".join(value for value in values if value)
    return {**found, "about": about} if about else found


def _describe(served: Served, view: str) -> dict[str, Any]:
    """Return what the page shows of a view."""
    model, entry = served.model, served.description["views"][view]
    return {
        "view": view,
        "n": entry["n"],
        "name": entry["name"],
        "columns": entry["columns"],
        "labels": entry["labels"],
        "features": entry["features"],
        "inputs": _inputs(model, view),
        "examples": _examples(model, view),
    }


def _inputs(model: PMvGE, view: str) -> list[dict[str, Any]]:
    """Return the columns of a form for new entities, with known categories."""
    known: dict[str, list[str]] = {}
    tables = model.tables_
    recipe = None if tables is None else tables["views"][view]["recipe"]
    for block in recipe["blocks"] if recipe else ():
        if "values" in block:
            known |= {column: list(block["values"][:VALUES]) for column in block["columns"]}
    return [
        {"column": column, "kind": kind, "values": known.get(column, [])}
        for column, kind in feature_columns(tables, view).items()
    ]


def _examples(model: PMvGE, view: str) -> list[dict[str, Any]]:
    """Return the entities with the most weight of known links; the first ones without links."""
    total = np.zeros(len(model.ids_[view]))
    if model.links_ is not None:
        for other in model.view_names_:
            matrix = model.links_.matrix(view, other)
            if matrix is not None:
                total += np.asarray(matrix.sum(axis=1)).ravel()
    best = np.argsort(-total, kind="stable")[:EXAMPLES].tolist()
    return [describe_entity(model, view, at) for at in best]
