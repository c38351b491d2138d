"""Saved models with their links, and the settings of new ones."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pmvge.errors import InputError, ParameterError, choose
from pmvge.model import Background, PMvGE, check_parameters, load_background, read_consistently


def load(folder: Path) -> tuple[PMvGE, Background | None]:
    """Return a model and its background (None if it was saved without), both of one save."""
    return read_consistently(folder, lambda path: (PMvGE.load(path), load_background(path)))


def require_background(folder: Path, background: Background | None) -> Background:
    """Return the background; raise InputError if the model was saved without it."""
    if background is None:
        raise InputError(
            f"{folder}: the model was saved without its links, which this command needs: fit it "
            "with 'pmvge fit', or save it with background=Background.of(graph)"
        )
    return background


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
