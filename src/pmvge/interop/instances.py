"""Check that an argument is an object of an optional library, without importing the library."""

from __future__ import annotations

import sys
from typing import Any

from pmvge.errors import GraphError


def check_instance(where: str, value: Any, module: str, name: str, hint: str = "") -> None:
    """Raise GraphError, which starts with ``where``, unless ``value`` is a ``module.name``.

    Whoever has such an object has imported its module, so that a module that is not imported needs
    no import. ``hint`` says what to do.
    """
    expected = getattr(sys.modules.get(module), name, None)
    if expected is None or not isinstance(value, expected):
        raise GraphError(f"{where}: expected {module}.{name}, got {type(value).__name__}{hint}")
