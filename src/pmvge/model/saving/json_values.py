"""Checks of the values in a manifest. All raise DamagedValue."""

from __future__ import annotations

import sys
from typing import Any

from pmvge.errors import short
from pmvge.storage import DamagedValue

NoneType = type(None)
NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


def get(record: Any, key: str, *types: type) -> Any:
    """Return ``record[key]``, checked to be of one of the types if there are any."""
    if not isinstance(record, dict) or key not in record:
        raise DamagedValue(f"expected an object with {key!r}, got {short(record)}")
    return expect(key, record[key], *types) if types else record[key]


def expect(where: str, value: Any, *types: type) -> Any:
    """Return a value, checked to be of one of the types. A bool is no int."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        names = " or ".join(NAMES[kind] for kind in types)
        raise DamagedValue(f"{where}: expected {names}, got {short(value)}")
    return value


def size(where: str, value: Any) -> int:
    """Return a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DamagedValue(f"{where}: expected a positive integer, got {short(value)}")
    return value


def number(where: str, value: Any) -> float:
    """Return a finite number."""
    if not abs(expect(where, value, int, float)) <= sys.float_info.max:  # NaN fails, too
        raise DamagedValue(f"{where}: expected a finite number, got {short(value)}")
    return float(value)


def strings(where: str, value: Any, length: int | None = None) -> list[str]:
    """Return a list of strings, of the given length if there is one."""
    found: list[str] = [expect(where, text, str) for text in expect(where, value, list)]
    if length not in (None, len(found)):
        raise DamagedValue(f"{where}: expected {length} strings, got {short(value)}")
    return found
