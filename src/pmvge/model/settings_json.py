"""Convert encoders and parameters of an estimator to and from JSON values."""

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


def encoder_to_json(view: str, choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the encoder choice of a view as JSON values."""
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


def encoders_from_json(
    folder: Path, views: Mapping[str, Any], encoders: Mapping[str, nn.Module]
) -> dict[str, Choice]:
    """Return the encoder choices of all views.

    Raise StorageError if a view has a user-defined module that ``encoders`` lacks.
    """
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
                f"{folder}: the encoder of view {view!r} is a user-defined module, "
                f"{saved['module']}; pass it as load(path, encoders={{{view!r}: module}})"
            )
    return choices


def parameters_to_json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters as JSON values. Generators become None."""
    values: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "encoder":
            values[name] = _setting_to_json(value)
        elif isinstance(value, Path | torch.device):
            values[name] = str(value)
        elif isinstance(value, np.generic):
            values[name] = value.item()
        elif isinstance(value, np.random.Generator | np.random.RandomState):
            values[name] = None
        else:
            values[name] = value
    return values


def _setting_to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"views": {view: _setting_to_json(choice) for view, choice in value.items()}}
    if isinstance(value, EncoderSpec):
        return {"spec": asdict(value)}
    if isinstance(value, nn.Module):
        return {"module": _import_path(value)}
    return value


def parameters_from_json(saved: dict[str, Any], choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the parameters that :func:`parameters_to_json` was given."""
    return {
        **saved,
        "hidden_sizes": tuple(saved["hidden_sizes"]),
        "encoder": _setting_from_json(saved["encoder"], None, choices),
    }


def _setting_from_json(saved: Any, view: str | None, choices: Mapping[str, Choice]) -> Any:
    if not isinstance(saved, dict):
        return saved
    if "views" in saved:
        return {
            name: _setting_from_json(setting, name, choices)
            for name, setting in saved["views"].items()
        }
    if "spec" in saved:
        return _read_spec(saved["spec"])
    if view is not None:
        return choices[view]
    modules = [choice for choice in choices.values() if isinstance(choice, nn.Module)]
    return modules[0]
