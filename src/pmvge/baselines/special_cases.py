"""Special cases of CDMCA: CCA, MCCA, CvGE, LPP and HIMFAC."""

from __future__ import annotations

from typing import Any

from pmvge.baselines.aligned import AlignedMethod
from pmvge.baselines.linear import PencilMethod


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
