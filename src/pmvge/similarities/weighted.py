"""The inner product with learned weights of the coordinates."""

from __future__ import annotations

import torch
from torch import nn

from pmvge.similarities.base import Similarity

# The learning rate of the weights, as a multiple of that of the encoders: few numbers, which decide
# early whether a coordinate attracts or repels.
WEIGHTS_LR_MULTIPLIER = 10.0


class Weighted(Similarity):
    r""":math:`g = \sum_k \lambda_k f_k(x) f_k(x')` with learned :math:`\lambda_k` of free sign.

    It approximates every symmetric similarity, also indefinite ones, such as links between
    different groups but not within them. Training finds how many weights are negative;
    :class:`~pmvge.similarities.Difference` has a fixed number of them. The weights start uniformly
    in :math:`\pm 0.5 / K`.

    References
    ----------
    G. Kim, A. Okuno, K. Fukui and H. Shimodaira, "Representation learning with weighted inner
    product for universal approximation of general similarities", IJCAI 2019.
    """

    def __init__(self, n_components: int) -> None:
        super().__init__(n_components)
        start = (torch.rand(n_components) - 0.5) / n_components
        self.theta = nn.Parameter(start / WEIGHTS_LR_MULTIPLIER)

    @property
    def weights(self) -> torch.Tensor:
        r"""The weights :math:`\lambda` (K,)."""
        return WEIGHTS_LR_MULTIPLIER * self.theta

    def query(self, y: torch.Tensor) -> torch.Tensor:
        """Return the vectors times the weights."""
        return y * (WEIGHTS_LR_MULTIPLIER * self.theta.to(y.dtype))

    def partner_slopes(self, y: torch.Tensor) -> torch.Tensor:
        """Return the vectors of partners times the weights."""
        return self.query(y)
