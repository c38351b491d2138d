"""Validation and look-up of entity ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import GraphError, InputError, NotInductive, short

Ids = NDArray[Any]  # int64, or unicode strings
FEW_IDS = 16  # ids that are looked up one by one
_TOO_LARGE = "integer ids must fit in 64 signed bits"


def check_ids(where: str, ids: Any, n: int) -> Ids:
    """Return ``ids`` as a read-only array of ``n`` distinct integers or strings.

    None gives ``0..n-1``. Raise GraphError if ids are not valid, repeat, or are not ``n``.
    """
    if ids is None:
        array: Ids = np.arange(n)
    else:
        array = as_ids(where, ids)
        if len(array) != n:
            raise GraphError(f"{where}: expected {n} ids, one per row, got {len(array)}")
        values, counts = np.unique(array, return_counts=True)
        if len(values) != n:
            repeated = values[counts > 1][0].item()
            raise GraphError(
                f"{where}: expected distinct ids, got {n - len(values)} repeats, "
                f"such as {short(repeated)}"
            )
    array.flags.writeable = False
    return array


def as_ids(where: str, ids: Any) -> Ids:
    """Return a new 1-d array of int64 or unicode ids from a list-like of integers or of strings.

    Raise GraphError, which starts with ``where``, for anything else.
    """
    try:
        given = ids if isinstance(ids, np.ndarray) else list(ids)
        array = np.array(given)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{where}: expected a list of ids, got {type(ids).__name__}") from error
    if array.dtype.kind in "OT" or (isinstance(given, list) and _may_be_mixed(array, given)):
        array = _from_objects(where, np.asarray(given, dtype=object))
    if array.ndim != 1:
        raise GraphError(f"{where}: expected a 1-d list of ids, got shape {array.shape}")
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise GraphError(f"{where}: {_TOO_LARGE}, got {array.max()}")
        return array.astype(np.int64)
    if array.dtype.kind == "U" or array.size == 0:
        return array
    raise GraphError(f"{where}: ids must be integers or strings, got {array.dtype} values")


def _may_be_mixed(array: Ids, given: list[Any]) -> bool:
    """Return whether numpy may have converted numbers to strings, or booleans to numbers."""
    return array.dtype.kind == "U" or not {bool, np.bool_}.isdisjoint(map(type, given))


def _from_objects(where: str, objects: NDArray[Any]) -> Ids:
    """Convert objects of one kind; in a mixed list, 1 and "1" would become the same id."""
    kinds = {type(value) for value in objects.ravel().tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return objects.astype(str)
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return objects.astype(np.int64)
        except OverflowError as error:
            largest = max(objects.ravel().tolist(), key=abs)
            raise GraphError(f"{where}: {_TOO_LARGE}, got {short(largest)}") from error
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise GraphError(f"{where}: ids must be all integers or all strings, got {names}")


def sort_ids(ids: Ids) -> NDArray[np.int64]:
    """Return the positions that sort ids, for :func:`find_ids`."""
    return np.argsort(ids, kind="stable")


def find_ids(ids: Ids, wanted: Ids, order: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return the positions of ``wanted`` in ``ids``, -1 where absent, in O((n + m) log n).

    With ``order``, the result of :func:`sort_ids`, it takes O(m log n).
    """
    if len(ids) == 0 or len(wanted) == 0 or ids.dtype.kind != wanted.dtype.kind:
        return np.full(len(wanted), -1, dtype=np.int64)
    if order is None and len(wanted) <= FEW_IDS:  # sorting takes longer than comparing all ids
        found = (np.flatnonzero(ids == one)[:1] for one in wanted)
        return np.array([at[0] if len(at) else -1 for at in found], dtype=np.int64)
    order = sort_ids(ids) if order is None else order
    rank = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    position = order[rank]
    return np.where(ids[position] == wanted, position, -1).astype(np.int64)


def as_input_ids(where: str, ids: Any) -> Ids:
    """Return one id, or several, as :func:`as_ids` does; raise InputError if they are not valid."""
    try:
        return as_ids(where, [ids] if np.isscalar(ids) else ids)
    except GraphError as error:
        raise InputError(str(error)) from error


def known_positions(view: str, ids: Ids, wanted: Any) -> NDArray[np.int64]:
    """Return the positions of ``wanted`` (one id or several) in the training ids of a view.

    Raise NotInductive if an id was not in training, and InputError if ids are not valid.
    """
    given = as_input_ids(f"view {view!r}: ids", wanted)
    return require_known(view, given, find_ids(ids, given))


def require_known(view: str, given: Ids, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of given ids; raise NotInductive if one of them is -1."""
    if (positions < 0).any():
        unseen = given[positions < 0]
        raise NotInductive(
            f"view {view!r}: only ids from training have a vector without features; got "
            f"{len(unseen)} unknown, such as {short(unseen[0].item())}"
        )
    return positions
