"""The checks that ``fit`` makes of an estimator's settings, before anything else."""

from __future__ import annotations

from typing import Any

import torch

from pmvge.checks import Check, flag, one_of, optional, path, real, sizes, whole
from pmvge.errors import ParameterError
from pmvge.similarities import SIMILARITIES

SCHEMES = ("block", "paper")
SCHEDULES = ("constant", "step", "cosine")
PRECISIONS = ("float32", "bfloat16")
CHECKS: dict[str, Check] = {
    "n_components": whole(1),
    "hidden_sizes": sizes,
    "batch_norm": flag,
    "standardize": flag,
    "similarity": one_of(*SIMILARITIES),
    "scheme": one_of(*SCHEMES),
    "batch_size": whole(2),
    "negative_rate": real(0, open_low=True),
    "tau": optional(real(0, open_low=True)),
    "max_epochs": optional(real(0, open_low=True)),
    "max_steps": optional(whole(1)),
    "learning_rate": real(0, open_low=True),
    "schedule": one_of(*SCHEDULES),
    "decay_every": whole(1),
    "decay_factor": real(0, open_low=True),
    "weight_decay": real(0),
    "clip_norm": optional(real(0, open_low=True)),
    "validation_fraction": real(0, 1, open_low=True),
    "patience": optional(whole(1)),
    "checkpoint_dir": optional(path),
    "checkpoint_steps": optional(whole(1)),
    "checkpoint_seconds": optional(real(0)),
    "precision": one_of(*PRECISIONS),
    "progress": flag,
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise ParameterError for the first setting that is out of its range."""
    for name, check in CHECKS.items():
        check(name, parameters[name])


def pick_device(name: Any) -> torch.device:
    """The device of that name; "auto" takes the first accelerator there is."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ParameterError(
            f"device: expected 'auto', 'cpu', 'cuda' or 'mps', and one that is here; "
            f"got {name!r} ({str(error).splitlines()[0]})"
        ) from error
    return device
