"""Families that differ by view pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from torch import nn

from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods.alpha import LogAlpha, TrainedGraph
from pmvge.likelihoods.base import Family
from pmvge.progress import OnProgress, share_progress


class FamilyByPair(Family):
    """Several families, each for some view pairs; :meth:`for_pair` gives that of a view pair.

    What one family has, such as ``zero`` and ``expected``, raises TypeError.
    """

    def __init__(self, families: Mapping[str, Family]) -> None:
        super().__init__([pair for family in families.values() for pair in family.pairs])
        self.names = tuple(families)
        self.families = nn.ModuleList(families.values())

    def for_pair(self, a: str, b: str) -> Family:
        """Return the family of a view pair, in either order."""
        for family in self.families:
            assert isinstance(family, Family)
            if (a, b) in family.index:
                return family
        raise KeyError((a, b))

    def name_of(self, pair: Pair) -> str:
        """Return the name of the family of a view pair."""
        of_pair = self.for_pair(*pair)
        return next(
            name
            for name, family in zip(self.names, self.families, strict=True)
            if family is of_pair
        )

    def fit_alphas(
        self,
        trained: TrainedGraph,
        rng: np.random.Generator,
        on_progress: OnProgress | None = None,
    ) -> dict[Pair, LogAlpha]:
        """Return log alpha of each view pair by its family."""
        parts = {
            n: {p: terms for p, terms in trained.terms.items() if self.for_pair(*p) is family}
            for n, family in enumerate(self.families)
        }
        callbacks = share_progress({n: sum(p.values()) for n, p in parts.items()}, on_progress)
        found: dict[Pair, LogAlpha] = {}
        for n, pairs in parts.items():
            family = self.families[n]
            assert isinstance(family, Family)
            part = replace(
                trained,
                graph=_with_pairs(trained.graph, pairs),
                validation=None
                if trained.validation is None
                else _with_pairs(trained.validation, pairs),
            )
            found |= family.fit_alphas(part, rng, callbacks[n])
        return {pair: found[pair] for pair in trained.terms}


class _OfOneFamily:
    """An attribute of the family of one view pair; the default of the base class may be wrong."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: FamilyByPair | None, owner: type) -> _OfOneFamily:
        if instance is None:
            return self
        raise TypeError(
            f"{self.name}: the family differs by view pair; use "
            f"family.for_pair(view, view).{self.name}"
        )


for _name in vars(Family).keys() - vars(FamilyByPair).keys() - {"measures"}:
    if not _name.startswith("_"):
        setattr(FamilyByPair, _name, _OfOneFamily(_name))


def _with_pairs(graph: MultiViewGraph, pairs: Mapping[Pair, int]) -> MultiViewGraph:
    return graph.with_links({pair: part for pair, part in graph.links.items() if pair in pairs})
