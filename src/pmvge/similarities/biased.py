r"""Similarities with a bias of each entity, for each view pair.

The output of an entity of view d is :math:`(y_i, \text{bias}_i^{(de)}, \text{bias}_i^{(de')},
\dots)`, K numbers and one for each view pair of d. Biases are two more coordinates of the inner
product:

.. math:: \langle q(y_i), c(y_j) \rangle + \text{bias}_i + \text{bias}_j
          = \langle (q, \text{bias}_i, 1), (c, 1, \text{bias}_j) \rangle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from pmvge.similarities.base import Similarity

Pair = tuple[str, str]


class WithBiases(Similarity):
    """A similarity whose view pairs have biases; :meth:`for_pair` gives that of a view pair.

    ``pairs`` gives, for each view with biases, the view pairs of its biases, in their order.
    """

    def __init__(
        self, similarity: Similarity, n_components: int, pairs: Mapping[str, Sequence[Pair]]
    ) -> None:
        super().__init__()
        self.similarity, self.n_components, self.pairs = similarity, n_components, dict(pairs)

    def for_pair(self, a: str, b: str) -> Similarity:
        """Return the similarity of outputs of view ``a`` and of view ``b``."""
        columns = (self._column(a, a, b), self._column(b, a, b))
        return Biased(self.similarity, self.n_components, *columns)

    def _column(self, view: str, a: str, b: str) -> int | None:
        pairs = self.pairs.get(view, ())
        at = (n for n, pair in enumerate(pairs) if pair in ((a, b), (b, a)))
        return next((self.n_components + n for n in at), None)


class Biased(Similarity):
    """The similarity of a view pair, with the biases in a column of each side's outputs.

    A column that is None means no bias. Other columns from ``n_components`` on are ignored.
    """

    equal_widths = False  # a view has one bias for each of its view pairs

    def __init__(
        self, similarity: Similarity, n_components: int, left: int | None, right: int | None
    ) -> None:
        super().__init__()
        self.similarity, self.n_components = similarity, n_components
        self.left, self.right = left, right
        self.biased = left is not None or right is not None
        self.linear = similarity.linear  # type: ignore[misc]

    def query(self, y: torch.Tensor) -> torch.Tensor:
        """Return (q, bias, 1); q alone if the pair has no biases."""
        q = self.similarity.query(y[:, : self.n_components])
        if not self.biased:
            return q
        return torch.cat([q, _bias(y, self.left), y.new_ones(y.shape[0], 1)], 1)

    def candidate(self, y: torch.Tensor) -> torch.Tensor:
        """Return (c, 1, bias); c alone if the pair has no biases."""
        c = self.similarity.candidate(y[:, : self.n_components])
        if not self.biased:
            return c
        return torch.cat([c, y.new_ones(y.shape[0], 1), _bias(y, self.right)], 1)

    def outer(self, product: torch.Tensor) -> torch.Tensor:
        """Return g from inner products."""
        return self.similarity.outer(product)


def _bias(y: torch.Tensor, column: int | None) -> torch.Tensor:
    # y.shape[0], unlike len(y), stays a variable when torch exports a graph.
    return y.new_zeros(y.shape[0], 1) if column is None else y[:, column : column + 1]
