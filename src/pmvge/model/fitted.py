"""The learned state of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.encoders import Choice, MultiViewEncoder, ViewSchema
from pmvge.errors import InputError, choose
from pmvge.graph import Ids, Pair
from pmvge.similarities import Similarity
from pmvge.training import History


@dataclass(frozen=True)
class Alpha:
    """log alpha of a view pair, with its standard error and the links' total weight."""

    log_value: float
    relative_error: float  # relative standard error of alpha; 0 if it was computed exactly
    weight: float  # total weight of the links that alpha was computed from

    @property
    def value(self) -> float:
        """Return alpha; 0 or infinity if float64 cannot represent it."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_value))


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of training. It holds no reference to the training graph."""

    network: MultiViewEncoder
    choices: Mapping[str, Choice]
    schemas: Mapping[str, ViewSchema]
    n_components: int
    embeddings: dict[str, NDArray[np.float32]]
    ids: dict[str, Ids]
    alpha: dict[Pair, Alpha]
    history: History
    seed: int
    tables: Mapping[str, Any] | None  # how rows are made from tables; None without tables

    @property
    def similarity(self) -> Similarity:
        """Return the similarity of the model."""
        return self.network.similarity

    def schema_of(self, view: str) -> ViewSchema:
        """Return the schema of a view; raise InputError if the model has no such view."""
        return self.schemas[choose("view", view, self.schemas, error=InputError)]

    def log_alpha_of(self, view: str, other: str) -> float:
        """Return log alpha of a view pair, in either order.

        Raise InputError if a view is unknown, or if the pair was not observed in training.
        """
        self.schema_of(view)
        self.schema_of(other)
        for pair in ((view, other), (other, view)):
            if pair in self.alpha:
                return self.alpha[pair].log_value
        observed = ", ".join(f"({a!r}, {b!r})" for a, b in self.alpha)
        raise InputError(
            f"links between {view!r} and {other!r} were not observed in training, so their alpha "
            f"is unknown: expected one of {observed}; search(..., by='similarity') ranks any pair"
        )
