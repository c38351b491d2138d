"""Cross-view graph embedding."""

from __future__ import annotations

from pmvge.baselines.linear import PencilMethod


class CvGE(PencilMethod):
    r"""Cross-view graph embedding.

    Two linear maps, one a view, that bring linked nodes together whatever the number of links of
    each. It is CDMCA with two views, and CCA where the links are one-to-one.

    .. math:: \max_\psi \sum_{i,j} w_{ij} \langle \psi^{(d_i)\top} x_i, \psi^{(d_j)\top} x_j \rangle
              \quad \text{subject to} \quad
              \sum_d \psi^{(d)\top} X^{(d)\top} D^{(d)} X^{(d)} \psi^{(d)} = I

    Choose it for two kinds of things with many-to-many links when a linear map is enough.
    For more views there is CDMCA.

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far each view's covariance is moved towards a multiple of the
        identity.
    center
        Subtract each view's mean, every row counted by its links.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        There are k axes, at most K, of positive eigenvalues.
    eigenvalues_
        (k,), largest first; without shrinkage, the correlation of linked nodes along each axis.

    References
    ----------
    Z. Huang, S. Shan, H. Zhang, S. Lao and X. Chen, "Cross-view graph embedding", ACCV 2012.
    """

    n_views = 2

    def __init__(
        self, n_components: int = 100, *, shrinkage: float = 0.1, center: bool = True
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.center = center
