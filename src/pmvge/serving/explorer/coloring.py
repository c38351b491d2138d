"""Colours of entities by a column: the most frequent categories, or a scale of numbers."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CATEGORIES = 10  # as many as the palette has hues
STEPS = 250  # of the scale of numbers
OTHER, MISSING = 254, 255
SHOWN = 80  # characters of a category
# PMvGE.label saves missing values as ""; earlier versions saved "nan" and "None".
ABSENT = ("", "nan", "NaN", "None", "null")


def color_codes(values: NDArray[Any]) -> dict[str, Any]:
    """Return the kind of a column, its legend, and a byte for each value in base64.

    A column whose values are all numbers, more than ``MAX_CATEGORIES`` of them, is a scale. It goes
    from the 1st to the 99th percentile, so that outliers do not hide the rest.
    """
    missing = np.isin(values, ABSENT)
    numbers = _numbers(values[~missing])
    if numbers is not None and len(np.unique(numbers)) > MAX_CATEGORIES:
        return _scale(numbers, missing)
    return _categories(values, missing)


def _numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    try:
        numbers = values.astype(np.float64)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _scale(numbers: NDArray[np.float64], missing: NDArray[np.bool_]) -> dict[str, Any]:
    low, high = np.quantile(numbers, [0.01, 0.99])
    if low == high:
        low, high = numbers.min(), numbers.max()
    codes = np.full(len(missing), MISSING, np.uint8)
    codes[~missing] = np.rint(STEPS * np.clip((numbers - low) / (high - low), 0, 1))
    return {
        "kind": "numbers",
        "low": float(low),
        "high": float(high),
        "missing": int(missing.sum()),
        "codes": _base64(codes),
    }


def _categories(values: NDArray[Any], missing: NDArray[np.bool_]) -> dict[str, Any]:
    found, at, counts = np.unique(values[~missing], return_inverse=True, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:MAX_CATEGORIES]
    code = np.full(len(found), OTHER, np.uint8)
    code[frequent] = np.arange(len(frequent))
    codes = np.full(len(values), MISSING, np.uint8)
    codes[~missing] = code[at]
    return {
        "kind": "categories",
        "categories": [
            {"text": str(found[i])[:SHOWN], "count": int(counts[i])} for i in frequent.tolist()
        ],
        "others": int(counts.sum() - counts[frequent].sum()),
        "other_values": len(found) - len(frequent),
        "missing": int(missing.sum()),
        "codes": _base64(codes),
    }


def _base64(codes: NDArray[np.uint8]) -> str:
    return base64.b64encode(codes.tobytes()).decode()
