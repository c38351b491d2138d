"""The settings of a model, from a project file and ``--set``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pmvge.errors import ParameterError, choose
from pmvge.model import PMvGE, check_parameters


def parse_settings(flags: Iterable[str], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of PMvGE in a project file, overridden by ``key=value`` flags."""
    settings = {key: None if value == "none" else value for key, value in base.items()}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals:
            raise ParameterError(f"--set: expected key=value, got {flag!r}")
        settings[key.strip()] = _parse_value(value.strip())
    known = PMvGE().get_params(deep=False)
    for key in settings:
        choose("setting", key, known)
    check_parameters({**known, **settings})
    return settings


def _parse_value(text: str) -> Any:
    """Return a TOML value, None for ``none``, or else the text itself."""
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return {"True": True, "False": False}.get(text, text)
