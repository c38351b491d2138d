"""The registry of likelihood families, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pmvge.checks import register, registered_name
from pmvge.errors import ParameterError, choose
from pmvge.graph import MultiViewGraph, Pair, pair_key
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.bernoulli import Bernoulli
from pmvge.likelihoods.beta import Beta
from pmvge.likelihoods.by_pair import FamilyByPair
from pmvge.likelihoods.logistic import Logistic
from pmvge.likelihoods.negative_binomial import NegativeBinomial
from pmvge.likelihoods.poisson import Poisson

FAMILIES: dict[str, type[Family]] = {
    "poisson": Poisson,
    "bernoulli": Bernoulli,
    "logistic": Logistic,
    "negative_binomial": NegativeBinomial,
    "beta": Beta,
}
ETA = (-12.0, -4.0, -1.0, 0.0, 2.0)  # values on which a family is checked


def register_family(name: str, family: type[Family]) -> None:
    """Add a family, so that ``PMvGE(family=name)`` uses it and saved models name it.

    Raise ParameterError if the name is taken by another class, or if the class is not a
    :class:`Family`.
    """
    register("family", FAMILIES, name, family, Family)


def build_family(family: str | Mapping[Any, str], pairs: Sequence[Pair]) -> Family:
    """Return a new family for the observed view pairs.

    ``family`` is a name, or ``{(view, view): name}``, also with keys "view,view"; other view pairs
    are Poisson. Raise ParameterError if a name or a view pair is unknown.
    """
    if isinstance(family, str):
        return FAMILIES[choose("family", family, FAMILIES)](pairs)
    names = dict.fromkeys(pairs, "poisson")
    for key, name in family.items():
        names[_find_pair(key, pairs)] = choose("family", name, FAMILIES, f"family of {key!r}")
    by_name: dict[str, list[Pair]] = {}
    for pair, name in names.items():
        by_name.setdefault(name, []).append(pair)
    built = {name: FAMILIES[name](own) for name, own in by_name.items()}
    return next(iter(built.values())) if len(built) == 1 else FamilyByPair(built)


def _find_pair(key: Any, pairs: Sequence[Pair]) -> Pair:
    for a, b in pairs:
        if key in ((a, b), (b, a), pair_key((a, b)), pair_key((b, a))):
            return a, b
    expected = ", ".join(f"({a!r}, {b!r})" for a, b in pairs)
    raise ParameterError(f"family: expected view pairs among {expected}, got {key!r}")


def check_family_names(name: str, value: Any) -> None:
    """Raise ParameterError unless a value is a family's name, or {view pair: name}."""
    for entry in value.values() if isinstance(value, Mapping) else [value]:
        choose(name, entry, FAMILIES)


def family_name(family: Family) -> str | dict[str, str]:
    """Return the registered name of a family, {"view,view": name} if it differs by view pair.

    Raise ParameterError if a family is not registered.
    """
    if isinstance(family, FamilyByPair):
        return {pair_key(pair): family.name_of(pair) for pair in family.pairs}
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
            own = family.for_pair(*pair)
            where = f"family {registered_name('family', FAMILIES, own)!r}"
            own.check_weights(f"links {pair!r}: {where}", links.weights)
            if len(links):
                _check_values(own, where, pair, links.weights[: len(ETA)])


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
