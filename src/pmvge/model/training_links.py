"""The links that a model was fitted to, as positions of the training entities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scipy import sparse

from pmvge.graph import Links, MultiViewGraph, Pair, merge_links


@dataclass(frozen=True, eq=False)
class TrainingLinks:
    """The training links and the held-out links of each view pair.

    Searches exclude known partners by them, evaluations exclude training links, and reports compare
    expected with observed weights.
    """

    training: Mapping[Pair, Links]
    held_out: Mapping[Pair, Links] = field(default_factory=dict)
    _matrices: dict[Pair, sparse.csr_array | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, graph: MultiViewGraph, held_out: MultiViewGraph | None) -> TrainingLinks:
        """Return the links of a graph, and those that were held out of it."""
        held = {} if held_out is None else dict(held_out.links)
        return cls(dict(graph.links), held)

    def matrix(self, a: str, b: str) -> sparse.csr_array | None:
        """Return :meth:`known` as a matrix of weights, symmetric within a view; None without."""
        if (a, b) not in self._matrices:
            links = self.known(a, b)
            self._matrices[a, b] = None if links is None else links.matrix()
        return self._matrices[a, b]

    def known(self, a: str, b: str) -> Links | None:
        """Return all links of a view pair, the held-out ones included; None if it has none.

        Rows are entities of view ``a``, columns of view ``b``.
        """
        for pair in ((a, b), (b, a)):
            if pair in self.training:
                links = merge_links(self.training[pair], self.held_out.get(pair))
                return links if pair == (a, b) else links.transposed()
        return None
