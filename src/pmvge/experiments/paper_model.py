"""The paper's model in its experiments, with settings that do not follow the defaults of PMvGE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.experiments.methods import METHODS
from pmvge.model import PMvGE

# The defaults at the time when settings were searched: a change of the defaults changes no result.
SETTINGS: dict[str, Any] = {
    "hidden_sizes": (256,),
    "dropout": 0.3,
    "effects": "none",
    "similarity": "cosine",
    "batch_size": 512,
    "learning_rate": 2e-3,
    "schedule": "constant",
    "weight_decay": 0.0,
}


def make_method(name: str, settings: Mapping[str, Any]) -> Any:
    """Return a method of a recipe with its settings; PMvGE as :func:`paper_model`."""
    return paper_model(**settings) if METHODS[name] is PMvGE else METHODS[name](**settings)


def paper_model(n_components: int = 100, **settings: Any) -> PMvGE:
    """Return PMvGE without effects, with the settings of this file where none are given."""
    return PMvGE(n_components, **{**SETTINGS, **settings})
