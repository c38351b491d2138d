"""The difference of two inner products."""

from __future__ import annotations

import torch

from pmvge.similarities.base import Similarity


class Difference(Similarity):
    r""":math:`g = \langle f_+(x), f_+(x') \rangle - \langle f_-(x), f_-(x') \rangle`.

    The first half of the coordinates is :math:`f_+` (one more, if K is odd), the second half
    :math:`f_-`. Like :class:`~pmvge.similarities.Weighted` it approximates every symmetric
    similarity, without parameters of its own.

    References
    ----------
    A. Okuno, G. Kim and H. Shimodaira, "Graph embedding with shifted inner product similarity and
    its improved approximation capability", AISTATS 2019 (inner product difference similarity).
    """

    def candidate(self, y: torch.Tensor) -> torch.Tensor:
        """Return the vectors with the second half of their coordinates negated."""
        plus = y.shape[1] - y.shape[1] // 2
        return torch.cat([y[:, :plus], -y[:, plus:]], 1)

    def partner_slopes(self, y: torch.Tensor) -> torch.Tensor:
        """Return the vectors of partners, with the second half negated."""
        return self.candidate(y)
