"""Convert encoders and parameters of an estimator to and from JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pmvge.encoders import Choice, EncoderSpec
from pmvge.errors import StorageError, choose, short
from pmvge.model.pair_weights import key_text
from pmvge.model.saving.json_values import NoneType, expect, get, size
from pmvge.storage import DamagedValue


def encoder_to_json(view: str, choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the encoder choice of a view as JSON values."""
    choice = choices[view]
    if isinstance(choice, EncoderSpec):
        return {"spec": asdict(choice)}
    same = min(other for other, module in choices.items() if module is choice)
    return {"module": _import_path(choice), "same_as": same}


def _import_path(module: nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _read_spec(saved: Any) -> EncoderSpec:
    spec = dict(expect("spec", saved, dict))
    for name in spec:
        choose("setting", name, [f.name for f in fields(EncoderSpec)], "spec", error=DamagedValue)
    sizes = expect("hidden_sizes", spec.get("hidden_sizes"), list, NoneType)
    expect("shared_with", spec.get("shared_with"), str, NoneType)
    return EncoderSpec(**spec | {"hidden_sizes": None if sizes is None else _sizes(sizes)})


def _sizes(values: list[Any]) -> tuple[int, ...]:
    return tuple(size("hidden_sizes", value) for value in values)


def encoders_from_json(
    folder: Path, views: Mapping[str, Any], encoders: Mapping[str, nn.Module]
) -> dict[str, Choice]:
    """Return the encoder choices of all views.

    Raise StorageError if a view has a user-defined module that ``encoders`` lacks, or if
    ``encoders`` has a view that the model lacks, and DamagedValue if a value is not valid.
    """
    for view in encoders:
        choose("view", view, views, f"{folder}: encoders", error=StorageError)
    choices: dict[str, Choice] = {}
    for view, entry in views.items():
        saved = get(entry, "encoder", dict)
        if "spec" in saved:
            choices[view] = _read_spec(saved["spec"])
            continue
        owner, path = get(saved, "same_as", str), get(saved, "module", str)
        module = encoders.get(owner, encoders.get(view))
        if module is None:
            raise StorageError(
                f"{folder}: the encoder of view {view!r} is a user-defined module, "
                f"{path}; pass it as load(path, encoders={{{view!r}: module}})"
            )
        choices[view] = module
    return choices


def parameters_to_json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters as JSON values. Generators become None."""
    values: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "encoder":
            values[name] = _setting_to_json(value)
        elif name in ("family", "pair_weights") and isinstance(value, Mapping):
            by_pair = {key_text(pair): entry for pair, entry in value.items()}
            values[name] = parameters_to_json(by_pair)
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


def parameters_from_json(
    saved: dict[str, Any], choices: Mapping[str, Choice], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters that :func:`parameters_to_json` was given.

    ``known`` are the estimator's parameters with their default values, which count for parameters
    that are newer than the file. Raise DamagedValue if a name is unknown or a value has the wrong
    type.
    """
    for name in saved:
        choose("parameter", name, known, error=DamagedValue)
    return {
        **known,
        **saved,
        "hidden_sizes": _sizes(get(saved, "hidden_sizes", list)),
        "encoder": _setting_from_json(get(saved, "encoder", str, dict, NoneType), None, choices),
    }


def _setting_from_json(saved: Any, view: str | None, choices: Mapping[str, Choice]) -> Any:
    if not isinstance(saved, dict):
        return saved
    if "views" in saved:
        return {
            name: _setting_from_json(setting, name, choices)
            for name, setting in get(saved, "views", dict).items()
        }
    if "spec" in saved:
        return _read_spec(saved["spec"])
    named = choices.values() if view is None else [choices.get(view)]
    modules = [choice for choice in named if isinstance(choice, nn.Module)]
    if not modules:
        raise DamagedValue(f"encoder: expected the setting of an encoder, got {short(saved)}")
    return modules[0]
