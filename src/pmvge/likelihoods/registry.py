"""The registry of likelihood families, by name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from pmvge.checks import register, registered_name
from pmvge.errors import ParameterError, choose
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.poisson import Poisson

FAMILIES: dict[str, type[Family]] = {"poisson": Poisson}
ETA = (-12.0, -4.0, -1.0, 0.0, 2.0)  # values on which a family is checked


def register_family(name: str, family: type[Family]) -> None:
    """Add a family, so that ``PMvGE(family=name)`` uses it and saved models name it.

    Raise ParameterError if the name is taken by another class, or if the class is not a
    :class:`Family`.
    """
    register("family", FAMILIES, name, family, Family)


def build_family(name: str, pairs: Sequence[Pair]) -> Family:
    """Return a new family of that name for the observed view pairs.

    Raise ParameterError if the name is unknown.
    """
    return FAMILIES[choose("family", name, FAMILIES)](pairs)


def family_name(family: Family) -> str:
    """Return the registered name of a family; raise ParameterError if there is none."""
    return registered_name("family", FAMILIES, family)


def check_family(family: Family, *graphs: MultiViewGraph | None, scheme: str = "block") -> None:
    """Check before training that a family keeps its contract, and that it can have the weights.

    Raise GraphError for weights of the graphs that the family cannot have. Raise ParameterError if
    the scheme is not one of the family's, or if values of the family have a wrong shape or are not
    finite.
    """
    name = family_name(family)
    if scheme == "paper" and not isinstance(family, Poisson):
        raise ParameterError(
            f"scheme 'paper': expected family 'poisson', got {name!r}; use scheme='block'"
        )
    for graph in graphs:
        for pair, links in graph.links.items() if graph is not None else ():
            family.check_weights(f"links {pair!r}: family {name!r}", links.weights)
            if len(links):
                _check_values(family, f"family {name!r}", pair, links.weights[: len(ETA)])


def _check_values(family: Family, where: str, pair: Pair, weights: np.ndarray) -> None:
    """Raise ParameterError unless values of a family on a few eta have shapes and limits."""
    eta = torch.tensor(ETA, dtype=torch.float64).expand(len(weights), -1).clone().requires_grad_()
    w = torch.from_numpy(np.array(weights, np.float64))[:, None].expand_as(eta)
    values = {
        "zero": family.zero(eta, pair),
        "at_link": family.at_link(w, eta, pair),
        "excess": family.excess(w, eta, pair),
        "expected": family.expected(eta),
    }
    for method, value in values.items():
        if value.shape != eta.shape:
            raise ParameterError(
                f"{where}: expected {method} to be elementwise, with shape {tuple(eta.shape)}, "
                f"got {tuple(value.shape)}"
            )
        if not bool(value.isfinite().all()):
            raise ParameterError(
                f"{where}: expected {method} to be finite, got {value.detach().tolist()} at eta "
                f"{list(ETA)} and weights {weights.tolist()}"
            )
        if not value.requires_grad:
            raise ParameterError(f"{where}: expected {method} to be differentiable in eta")
    nothing = torch.full((1,), -math.inf, dtype=torch.float64)
    for method, value in (
        ("zero", family.zero(nothing, pair)),
        ("expected", family.expected(nothing)),
    ):
        if float(value.detach()) != 0:
            raise ParameterError(
                f"{where}: expected {method}(-inf) = 0, got {float(value.detach()):.3g}"
            )
