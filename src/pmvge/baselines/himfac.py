"""HIMFAC."""

from __future__ import annotations

from pmvge.baselines.linear import PencilMethod


class HIMFAC(PencilMethod):
    r"""Prediction of relations among things of several kinds in few dimensions.

    Linear maps of all views into one space where related things are close, learned from the graph
    Laplacian of their relations. In its mathematics it is CDMCA, stated with distances in place of
    inner products.

    .. math:: \min_\psi \sum_{i,j} w_{ij} \| \psi^{(d_i)\top} x_i - \psi^{(d_j)\top} x_j \|^2
              \quad \text{subject to} \quad \psi^\top X^\top D X \psi = I

    Choose it where the literature asks for it by name; its vectors are those of CDMCA with the
    constraint "links".

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far each view's covariance is moved towards a multiple of the
        identity.
        With any, linked nodes' inner products are maximised; without, that is the formula above.
    center
        Subtract each view's mean, every row counted by its links.

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
    N. Nori, D. Bollegala and H. Kashima, "Multinomial relation prediction in social data: a
    dimension reduction approach", AAAI 2012.
    """

    n_views = "D"

    def __init__(
        self, n_components: int = 100, *, shrinkage: float = 0.1, center: bool = True
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.center = center
