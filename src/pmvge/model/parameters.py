"""Checks of the estimator's parameters, made at the start of ``fit``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pmvge.checks import Check, flag, integer, one_of, optional, path, real, sizes
from pmvge.encoders import sparse_within
from pmvge.errors import ParameterError
from pmvge.graph import MultiViewGraph
from pmvge.likelihoods import check_family_names
from pmvge.model.pair_weights import check_pair_weights
from pmvge.similarities import SIMILARITIES
from pmvge.training import SCHEDULES

SCHEMES = ("block", "paper")
PRECISIONS = ("float32", "bfloat16")
CHECKS: dict[str, Check] = {
    "n_components": integer(1),
    "hidden_sizes": sizes,
    "batch_norm": flag,
    "standardize": flag,
    "similarity": lambda name, value: one_of("auto", *SIMILARITIES)(name, value),  # may grow
    "family": check_family_names,
    "scheme": one_of(*SCHEMES),
    "pair_weights": check_pair_weights,
    "batch_size": integer(2),
    "negative_rate": real(0, open_low=True),
    "tau": optional(real(0, open_low=True)),
    "max_epochs": optional(real(0, open_low=True)),
    "max_steps": optional(integer(1)),
    "learning_rate": real(0, open_low=True),
    "schedule": one_of(*SCHEDULES),
    "decay_every": integer(1),
    "decay_factor": real(0, open_low=True),
    "weight_decay": optional(real(0)),
    "clip_norm": optional(real(0, open_low=True)),
    "validation_fraction": real(0, 1, open_low=True),
    "patience": optional(integer(1)),
    "checkpoint_dir": optional(path),
    "checkpoint_steps": optional(integer(1)),
    "checkpoint_seconds": optional(real(0)),
    "precision": one_of(*PRECISIONS),
    "progress": flag,
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise ParameterError for the first parameter that is not valid."""
    for name, check in CHECKS.items():
        check(name, parameters[name])


def choose_defaults(parameters: Mapping[str, Any], graph: MultiViewGraph) -> dict[str, Any]:
    """Return the parameters with those that depend on the graph set.

    - ``similarity="auto"``: "cosine" if a view is linked to itself, else "inner". Within a view, an
      inner product makes entities with long vectors similar to all others.
    - ``weight_decay=None``: 0 if a view with sparse features is linked to itself, else 1.
    """
    chosen = dict(parameters)
    if chosen["similarity"] == "auto":
        within = any(a == b for a, b in graph.links)
        chosen["similarity"] = "cosine" if within else "inner"
    if chosen["weight_decay"] is None:
        chosen["weight_decay"] = 0.0 if sparse_within(graph) else 1.0
    return chosen


def pick_device(name: Any) -> torch.device:
    """Return the device of that name; "auto" means the first available accelerator, else the CPU.

    Raise ParameterError if the device is unknown or not available.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ParameterError(
            f"device: expected 'auto' or an available device among 'cpu', 'cuda' and 'mps', got "
            f"{name!r} ({str(error).splitlines()[0]})"
        ) from error
    return device
