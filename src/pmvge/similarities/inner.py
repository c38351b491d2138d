"""The paper's similarity: the inner product."""

from __future__ import annotations

from pmvge.similarities.base import Similarity


class Inner(Similarity):
    r"""The paper's :math:`g = \langle f(x), f(x') \rangle`."""


INNER = Inner()  # it has no parameters: one instance serves as a default argument
