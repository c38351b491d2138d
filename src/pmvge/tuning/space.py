"""The space of settings that is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmvge.model import PMvGE

HIDDEN = {"128": (128,), "256": (256,), "512": (512,), "256-256": (256, 256)}
DROPOUT = [None, 0.0, 0.2, 0.4, 0.6]
SEARCHED = (
    "n_components",
    "encoder",
    "hidden_sizes",
    "dropout",
    "learning_rate",
    "similarity",
    "scheme",
)


Choices = Mapping[str, Sequence[str]]  # names of families and effects to choose from


def defaults(choices: Choices) -> dict[str, Any]:
    """Return the default settings as a point of the search space."""
    settings = PMvGE().get_params(deep=False) | {"effects": "vector"}  # which "auto" means
    names = {sizes: name for name, sizes in HIDDEN.items()}
    return {
        "n_components": settings["n_components"],
        "network": names[settings["hidden_sizes"]],
        "dropout": settings["dropout"],
        "learning_rate": settings["learning_rate"],
        "similarity": settings["similarity"],
        "scheme": settings["scheme"],
        **{
            name: settings[name] if settings[name] in options else options[0]
            for name, options in choices.items()
        },
    }


def fixed_names(fixed: Mapping[str, Any]) -> set[str]:
    """Return the names of settings, and of dimensions of the search space, that are fixed."""
    network = {"network"} if {"encoder", "hidden_sizes"} & set(fixed) else set()
    return set(fixed) | network


def suggest(trial: Any, fixed: Mapping[str, Any], choices: Choices) -> dict[str, Any]:
    """Draw the settings of a trial that are not fixed."""
    taken = fixed_names(fixed)
    settings: dict[str, Any] = {}
    if "n_components" not in taken:
        settings["n_components"] = trial.suggest_int("n_components", 8, 256, log=True)
    if "network" not in taken:
        network = trial.suggest_categorical("network", ["linear", *HIDDEN])
        if network == "linear":
            settings["encoder"] = "linear"
        else:
            settings |= {"encoder": "mlp", "hidden_sizes": HIDDEN[network]}
    if "dropout" not in taken:
        settings["dropout"] = trial.suggest_categorical("dropout", DROPOUT)
    if "learning_rate" not in taken:
        rate = trial.suggest_float("learning_rate", 3e-4, 2e-2, log=True)
        settings["learning_rate"] = float(f"{rate:.3g}")
    if "similarity" not in taken:
        names = ["auto", "cosine", "inner"]
        settings["similarity"] = trial.suggest_categorical("similarity", names)
    if "scheme" not in taken:
        settings["scheme"] = trial.suggest_categorical("scheme", ["block", "paper"])
    for name, options in choices.items():
        settings[name] = trial.suggest_categorical(name, list(options))
    return settings


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON values: tuples become lists."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
