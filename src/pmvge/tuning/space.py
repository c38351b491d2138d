"""The settings that are searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.model import PMvGE

HIDDEN = {"128": (128,), "256": (256,), "512": (512,), "256-256": (256, 256)}
SEARCHED = (
    "n_components",
    "encoder",
    "hidden_sizes",
    "dropout",
    "learning_rate",
    "similarity",
    "scheme",
)


def defaults() -> dict[str, Any]:
    """The default settings as a point of the space that is searched."""
    usual = PMvGE().get_params(deep=False)
    sizes = {sizes: name for name, sizes in HIDDEN.items()}
    return {
        "n_components": usual["n_components"],
        "network": sizes[usual["hidden_sizes"]],
        "dropout": usual["dropout"],
        "learning_rate": usual["learning_rate"],
        "similarity": usual["similarity"],
        "scheme": usual["scheme"],
    }


def fixed_names(fixed: Mapping[str, Any]) -> set[str]:
    """Return the names of settings, and of search dimensions, that are not searched."""
    network = {"network"} if {"encoder", "hidden_sizes"} & set(fixed) else set()
    return set(fixed) | network


def suggest(trial: Any, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the settings of a trial that are not fixed."""
    taken = fixed_names(fixed)
    settings: dict[str, Any] = {}
    if "n_components" not in taken:
        settings["n_components"] = trial.suggest_int("n_components", 8, 256, log=True)
    if "network" not in taken:
        network = trial.suggest_categorical("network", ["linear", *HIDDEN])
        settings |= (
            {"encoder": "linear"}
            if network == "linear"
            else {
                "encoder": "mlp",
                "hidden_sizes": HIDDEN[network],
            }
        )
    if "dropout" not in taken:
        settings["dropout"] = round(trial.suggest_float("dropout", 0.0, 0.7), 3)
    if "learning_rate" not in taken:
        rate = trial.suggest_float("learning_rate", 3e-4, 2e-2, log=True)
        settings["learning_rate"] = float(f"{rate:.3g}")
    if "similarity" not in taken:
        settings["similarity"] = trial.suggest_categorical("similarity", ["cosine", "inner"])
    if "scheme" not in taken:
        settings["scheme"] = trial.suggest_categorical("scheme", ["block", "paper"])
    return settings


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
