"""Canonical correlation analysis."""

from __future__ import annotations

from typing import Any

from pmvge.baselines.aligned import AlignedMethod


class CCA(AlignedMethod):
    r"""Canonical correlation analysis.

    Two linear maps, one a view, whose outputs correlate as much as possible over aligned rows.
    Many-to-many links are given to it as one aligned row per link, weighted by w.

    .. math:: \max_{A^{(1)}, A^{(2)}} \sum_i
              \langle A^{(1)\top} x_i^{(1)}, A^{(2)\top} x_i^{(2)} \rangle
              \quad \text{subject to} \quad A^{(d)\top} X^{(d)\top} X^{(d)} A^{(d)} = I

    Choose it for two views whose rows belong together one to one, as the first thing to compare
    with. It finds no more axes than the narrower view has columns.

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
    H. Hotelling, "Relations between two sets of variates", Biometrika 1936.
    """

    n_views = 2

    def __init__(self, n_components: int = 100, *, shrinkage: float = 0.1) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def _method(self, n_components: int) -> Any:
        from cca_zoo.linear import RidgeCCA

        return RidgeCCA(n_components, center=False, shrinkage=float(self.shrinkage))
