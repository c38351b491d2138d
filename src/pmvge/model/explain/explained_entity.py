"""An entity to explain: by its id, its row of features, or a row of a raw table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError, TableError, choose, short
from pmvge.graph import Features, as_input_ids, check_rows
from pmvge.model.embedding import Entities, encode_entities, find_entities
from pmvge.model.fitted import Fitted, texts_of
from pmvge.model.fold_in.fold_in import find_or_fold_in
from pmvge.tables import feature_columns, rows_of

SAME_ROW = 1e-3  # largest difference of outputs, relative to their size, of one row


@dataclass(frozen=True, eq=False)
class ExplainedEntity:
    """One entity: its outputs, its effects, and its features if they are known."""

    view: str
    entities: Entities  # of one row
    row: Features | None  # (1, ...)
    e: NDArray[np.float64] | None  # (K,) effects that are added to the vector
    b: NDArray[np.float64]  # (P,) effects of the biases

    @property
    def effects_name(self) -> str:
        """What to call the effects: those of a new entity come from its first links."""
        counts = [(links.nnz, other) for other, links in self.entities.first_links.items()]
        listed = ", ".join(f"{count} {other}" for count, other in counts if count)
        return f"first links: {listed}" if listed else "effects"

    @property
    def position(self) -> int:
        """The position in training; -1 for a new entity."""
        return int(self.entities.positions[0])

    @property
    def outputs(self) -> NDArray[np.float32]:
        """The vector and the biases, (K + P,)."""
        outputs: NDArray[np.float32] = self.entities.outputs[0]
        return outputs

    def id_of(self, fitted: Fitted) -> int | str | None:
        """Return the id; None for a new entity."""
        at = self.position
        return None if at < 0 else fitted.ids[self.view][at].item()

    def name_of(self, fitted: Fitted) -> str | None:
        """Return the name; None for a new entity and in a view without names."""
        return entity_name(fitted, self.view, self.position)


def entity_name(fitted: Fitted, view: str, position: int) -> str | None:
    """Return the name of a training entity; None for a new one and in a view without names."""
    column = fitted.names.get(view)
    if column is None or position < 0:
        return None
    return str(texts_of(fitted, view)[column][position]) or None


def find_explained(
    fitted: Fitted,
    view: str,
    entity: Any,
    X: Any = None,
    *,
    links: Any = None,
    exposure: Any = None,
) -> ExplainedEntity:
    """Return the entity that is given by an id, by a row of features, or by a dict of raw values.

    ``X`` is the row of features of an entity that is given by its id. A known entity without it has
    the columns that the model keeps, if these are all its features. A new entity with ``links`` has
    effects from them, and is None in a view without features. Raise InputError if a row or a link
    is not valid, and NotInductive for an unknown id.
    """
    where, id_ = f"explain: view {view!r}", None
    if isinstance(entity, Mapping):
        if X is not None:
            raise InputError(f"{where}: expected a dict of raw values or X, got both")
        id_, row = _raw_row(fitted, where, view, entity)
    elif entity is None and links is not None:
        row = X
    elif np.ndim(entity) == 0 and not sparse.issparse(entity):
        id_, row = entity, X
    else:
        if X is not None:
            raise InputError(f"{where}: expected an id with X, got a row of features and X")
        row = entity
    shape = fitted.schema_of(view).row_shape
    if shape is None and row is not None:
        raise InputError(f"{where} has no features: expected an id, got {short(entity)}")
    if links is not None or exposure is not None:
        row = None if row is None or shape is None else _one_row(where, view, row, shape)
        ids = None if id_ is None else [id_]
        found = find_or_fold_in(fitted, view, row, ids, links=links, exposure=exposure)
        if len(found.positions) != 1:
            raise InputError(f"{where}: links: expected links of row 0, which is this entity")
    elif row is None:
        found = find_entities(fitted, view, None, [id_])
        row = None if shape is None else kept_row(fitted, view, found)
    else:
        assert shape is not None
        row = _one_row(where, view, row, shape)
        known = np.array([-1])
        if isinstance(entity, Mapping) and id_ is not None:  # a row with an id may be new
            known = fitted.positions_of(view, as_input_ids(where, id_))
        elif id_ is not None:
            known = fitted.known_positions(view, id_)
        found = encode_entities(fitted, view, row, known)
    return ExplainedEntity(view, found, row, *_effects(fitted, view, found))


def _one_row(where: str, view: str, row: Any, shape: tuple[int, ...]) -> Features:
    """Return a row of features as (1, ...)."""
    if not sparse.issparse(row):
        row = np.asarray(row)
        row = row[None] if row.ndim == len(shape) else row
    rows = check_rows(view, row, shape)
    if rows.shape[0] != 1:
        raise InputError(f"{where}: expected one row of features, got {rows.shape[0]}")
    return rows


def _raw_row(
    fitted: Fitted, where: str, view: str, values: Mapping[Any, Any]
) -> tuple[int | str | None, Features | None]:
    """Return the id, None without one, and the features of a row of a raw table."""
    if fitted.tables is None:
        raise InputError(
            f"{where}: the model was not fitted to tables: expected an id or a row of features, "
            "got a dict"
        )
    key = fitted.tables["views"][view]["id"]
    columns = feature_columns(fitted.tables, view)
    for column, value in values.items():
        choose(
            "column",
            column,
            {key: None} | columns | texts_of(fitted, view),
            where,
            error=InputError,
        )
        if isinstance(value, float) and np.isnan(value):
            raise InputError(f"{where}: column {column!r}: expected a value or None, got NaN")
    given = {
        column: value for column, value in values.items() if column in columns or column == key
    }
    try:
        table = pyarrow.table({column: [value] for column, value in given.items()})
        ids, X = rows_of(fitted.tables, view, table)
    except (TableError, pyarrow.ArrowException) as error:
        raise InputError(f"{where}: {error}") from error
    return (ids[0].item() if values.get(key) is not None else None), X


def kept_row(fitted: Fitted, view: str, found: Entities) -> Features | None:
    """Return the features of a training entity from the columns that the model keeps.

    None if the model does not keep all feature columns, or if they do not give its outputs.
    """
    texts, columns = texts_of(fitted, view), feature_columns(fitted.tables, view)
    if not columns or not columns.keys() <= texts.keys():
        return None
    at = int(found.positions[0])
    table = pyarrow.table({column: [str(texts[column][at]) or None] for column in columns})
    try:
        row = rows_of(fitted.tables, view, table)[1]
        again = encode_entities(fitted, view, row, found.positions)
    except (InputError, TableError):
        return None
    scale = float(np.abs(found.outputs).max())
    same = float(np.abs(again.outputs - found.outputs).max()) <= SAME_ROW * max(scale, SAME_ROW)
    return row if same else None


def _effects(
    fitted: Fitted, view: str, found: Entities
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return the effects (e, b) of an entity; e is None where there is none."""
    module = fitted.network.effects_of(view)
    if module is None:
        return None, np.zeros(fitted.network.n_biases(view))
    if found.positions[0] < 0 and found.effects is not None:  # of first links
        rows = torch.from_numpy(found.effects)
    else:
        index = torch.from_numpy(found.positions).to(module.weight.device)
        rows = module.of_known(index).detach().cpu()
    e, b = module.split(rows.double())
    has_vector = module.n_vector and (found.positions[0] >= 0 or found.effects is not None)
    return (e[0].numpy() if has_vector else None), b[0].numpy()
