"""Import the libraries of the extra ``export``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pmvge.errors import InputError


def require(name: str, purpose: str) -> Any:
    """Return a module; raise InputError with the command that installs it if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(f"{purpose} needs {name}: pip install 'pmvge[export]'") from error
