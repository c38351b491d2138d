"""Multiset canonical correlation analysis."""

from __future__ import annotations

from typing import Any

from pmvge.baselines.aligned import AlignedMethod


class MCCA(AlignedMethod):
    r"""Multiset canonical correlation analysis.

    One linear map per view so that all pairs of views correlate as much as possible in sum over
    aligned rows. Many-to-many links are given to it as one aligned row per link, weighted by w;
    views that a link does not touch show their mean there.

    .. math:: \max_A \sum_{d \ne e} \sum_i
              \langle A^{(d)\top} x_i^{(d)}, A^{(e)\top} x_i^{(e)} \rangle
              \quad \text{subject to} \quad
              \frac{1}{D} \sum_d A^{(d)\top} X^{(d)\top} X^{(d)} A^{(d)} = I

    Choose it for several views whose rows belong together one to one. It finds no more axes than
    the narrowest view has columns.

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far each view's covariance is moved towards a multiple of the identity.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        There are k axes, at most K and no more than the narrowest view has columns.

    References
    ----------
    J. R. Kettenring, "Canonical analysis of several sets of variables", Biometrika 1971.
    """

    n_views = "D"

    def __init__(self, n_components: int = 100, *, shrinkage: float = 0.1) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def _method(self, n_components: int) -> Any:
        from cca_zoo import linear

        return linear.MCCA(n_components, center=False, shrinkage=float(self.shrinkage), pca=False)
