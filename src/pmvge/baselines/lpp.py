"""Locality preserving projections."""

from __future__ import annotations

from pmvge.baselines.linear import PencilMethod


class LPP(PencilMethod):
    r"""Locality preserving projections.

    A linear map of the features that keeps linked nodes close: Laplacian eigenmaps whose axes are
    linear functions, so that new nodes have a place, too. It is CDMCA with one view.

    .. math:: \min_\psi \sum_{i,j} w_{ij} \| \psi^\top x_i - \psi^\top x_j \|^2
              \quad \text{subject to} \quad \psi^\top X^\top D X \psi = I

    Choose it for one view with features when a linear map is enough and no training loop is
    wanted. With more columns than links it needs shrinkage.

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far the covariance is moved towards a multiple of the identity.
        With any, linked nodes' inner products are maximised; without, that is the formula above.
    center
        Subtract the mean of the rows, each counted by its links.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        There are k axes, at most K, of positive eigenvalues.
    eigenvalues_
        (k,), largest first: without shrinkage, 1 minus the generalised eigenvalues of the
        Laplacian.

    References
    ----------
    X. He and P. Niyogi, "Locality preserving projections", NIPS 2003.
    """

    n_views = 1

    def __init__(
        self, n_components: int = 100, *, shrinkage: float = 0.1, center: bool = True
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.center = center
