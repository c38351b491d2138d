"""Encoders and parameters of an estimator as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pmvge.encoders import Choice, EncoderSpec
from pmvge.errors import StorageError


def plain_choice(view: str, choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the choice of a view's encoder as plain data."""
    choice = choices[view]
    if isinstance(choice, EncoderSpec):
        return {"spec": asdict(choice)}
    same = min(other for other, module in choices.items() if module is choice)
    return {"module": _import_path(choice), "same_as": same}


def _import_path(module: nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _read_spec(spec: Mapping[str, Any]) -> EncoderSpec:
    sizes = spec["hidden_sizes"]
    return EncoderSpec(**{**spec, "hidden_sizes": None if sizes is None else tuple(sizes)})


def read_choices(
    folder: Path, views: Mapping[str, Any], encoders: Mapping[str, nn.Module]
) -> dict[str, Choice]:
    """Return the encoder choices of all views; raise StorageError if a module is not given."""
    choices: dict[str, Choice] = {}
    for view, entry in views.items():
        saved = entry["encoder"]
        if "spec" in saved:
            choices[view] = _read_spec(saved["spec"])
        elif view in encoders or saved["same_as"] in encoders:
            shared = encoders.get(saved["same_as"])
            choices[view] = encoders[view] if shared is None else shared
        else:
            raise StorageError(
                f"{folder}: the encoder of view {view!r} is a module of your own, "
                f"{saved['module']}; pass it as load(path, encoders={{{view!r}: module}})"
            )
    return choices


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters as plain data."""
    plain: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "encoder":
            plain[name] = _plain_encoder(value)
        elif isinstance(value, Path | torch.device):
            plain[name] = str(value)
        elif isinstance(value, np.generic):
            plain[name] = value.item()
        elif isinstance(value, np.random.Generator | np.random.RandomState):
            plain[name] = None
        else:
            plain[name] = value
    return plain


def _plain_encoder(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"views": {view: _plain_encoder(one) for view, one in value.items()}}
    if isinstance(value, EncoderSpec):
        return {"spec": asdict(value)}
    if isinstance(value, nn.Module):
        return {"module": _import_path(value)}
    return value


def read_parameters(plain: dict[str, Any], choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the parameters that :func:`plain_parameters` was given."""
    sizes = plain["hidden_sizes"]
    return {
        **plain,
        "hidden_sizes": tuple(sizes),
        "encoder": _read_encoder(plain["encoder"], None, choices),
    }


def _read_encoder(saved: Any, view: str | None, choices: Mapping[str, Choice]) -> Any:
    if not isinstance(saved, dict):
        return saved
    if "views" in saved:
        return {name: _read_encoder(one, name, choices) for name, one in saved["views"].items()}
    if "spec" in saved:
        return _read_spec(saved["spec"])
    if view is not None:
        return choices[view]
    modules = [choice for choice in choices.values() if isinstance(choice, nn.Module)]
    return modules[0]
