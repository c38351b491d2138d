"""Check the first links of new entities with known ones."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import GraphError, InputError, short
from pmvge.graph import as_input_ids
from pmvge.model.fitted import Fitted

FirstLinks = Mapping[str, sparse.csr_array]  # {other view: weights (n, m)}
LISTED = 5  # unknown ids in an error message


def check_first_links(fitted: Fitted, view: str, n: int | None, links: Any) -> FirstLinks:
    """Return the weights of the links of n rows with the entities of each other view.

    ``links`` is ``{other view: (rows, ids, weights)}``, weights 1 if left out; repeated links add
    up. Without n it is the largest row number plus 1. Raise InputError if links are not valid.
    """
    if not isinstance(links, Mapping):
        raise InputError(
            "links: expected a dict {view: (rows, ids, weights)}, got " + type(links).__name__
        )
    entries = {}
    for other, given in links.items():
        where = f"links of {view!r} with {other!r}"
        if fitted.log_alpha_of(view, other) == -np.inf:
            raise InputError(f"{where}: expected a view pair with links in training, got none")
        entries[other] = _check_entries(fitted, where, other, given)
    size = max([int(rows.max()) + 1 for rows, _, _ in entries.values() if len(rows)], default=0)
    if n is not None and size > n:
        raise InputError(f"links of {view!r}: expected row numbers below {n}, got {size - 1}")
    found = {}
    for other, (rows, columns, weights) in entries.items():
        shape = (size if n is None else n, len(fitted.ids[other]))
        added = sparse.csr_array((weights, (rows, columns)), shape=shape)  # repeats add up
        added.sum_duplicates()
        added.eliminate_zeros()
        try:
            where = f"links of {view!r} with {other!r}"
            fitted.family_of(view, other).check_weights(where, added.data)
        except GraphError as error:
            raise InputError(str(error)) from error
        found[other] = added
    return found


def _check_entries(
    fitted: Fitted, where: str, other: str, given: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return row numbers, positions of known entities, and weights."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise InputError(
            f"{where}: expected (rows, ids) or (rows, ids, weights), got {type(given).__name__}"
        )
    rows = np.asarray(given[0])
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputError(f"{where}: rows: expected a list of row numbers, got {short(given[0])}")
    rows = rows.astype(np.int64)
    if rows.size and rows.min() < 0:
        raise InputError(f"{where}: rows: expected row numbers from 0 on, got {rows.min()}")
    ids = as_input_ids(f"{where}: ids", given[1])
    try:
        weights = np.asarray(given[2] if len(given) == 3 else np.ones(len(rows)), np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{where}: weights: expected numbers, got {short(given[2])}") from None
    if not (rows.shape == ids.shape == weights.shape):
        raise InputError(
            f"{where}: expected rows, ids and weights of one length, got {len(rows)}, {len(ids)} "
            f"and shape {weights.shape}"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{where}: weights: expected finite numbers >= 0, got {int(wrong.sum())} others, such "
            f"as {weights[at]} of link {at}"
        )
    positions = fitted.positions_of(other, ids)
    if (positions < 0).any():
        unknown = list(dict.fromkeys(ids[positions < 0].tolist()))
        listed = ", ".join(short(value) for value in unknown[:LISTED])
        more = ", ..." if len(unknown) > LISTED else ""
        raise InputError(
            f"{where}: expected ids of known entities of {other!r}, got {len(unknown)} unknown: "
            f"{listed}{more}"
        )
    return rows, positions, weights


def check_exposure(exposure: Any) -> float | None:
    """Return the exposure as a float; raise InputError unless it is None or positive."""
    if exposure is None:
        return None
    valid = isinstance(exposure, Real) and not isinstance(exposure, bool)
    if not valid or not 0 < float(exposure) < np.inf:
        raise InputError(f"exposure: expected a positive number or None, got {exposure!r}")
    return float(exposure)
