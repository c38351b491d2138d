"""The inner product with a shift of each entity."""

from __future__ import annotations

from typing import ClassVar

from pmvge.similarities.base import Similarity


class Shifted(Similarity):
    r""":math:`g = \langle f(x), f(x') \rangle + u(x) + u(x')`, the shifted inner product.

    Inner products approximate positive definite similarities only. With a shift u, learned from the
    features for each view pair, they approximate every conditionally positive definite one, such as
    minus a squared distance.

    The shifts are the biases of :class:`~pmvge.similarities.biased.WithBiases`, which exist without
    effects, too. Without features, u is one number for each entity.

    References
    ----------
    A. Okuno, G. Kim and H. Shimodaira, "Graph embedding with shifted inner product similarity and
    its improved approximation capability", AISTATS 2019.
    """

    always_biased: ClassVar[bool] = True
