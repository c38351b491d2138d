r"""Special cases of CDMCA: CCA and MCCA on aligned rows, CvGE, LPP and HIMFAC.

CCA and MCCA need aligned rows. A link :math:`(i, j)` of weight w becomes one row of weight w with
:math:`x_i` and :math:`x_j` in the columns of their views, and the mean in the columns of other
views. Linear methods depend on second moments only, so the links are replaced by a small number of
rows, at most twice the number of columns, with the same moments.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from pmvge.baselines.linear import LinearMethod, PencilMethod
from pmvge.baselines.moments import LinkMoments, link_moments
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]


class AlignedMethod(LinearMethod):
    """Base class of methods that cca-zoo fits to the aligned rows of the links."""

    many_to_many = False
    within_view = False
    libraries = ("cca_zoo",)

    def __init__(self, n_components: int = 100, *, shrinkage: float = 0.1) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def _solve(self, graph: MultiViewGraph, X: dict[str, Features]) -> None:
        moments = link_moments(graph, X, center=True, where=self._name)
        scales = _view_scales(moments)
        rows = _rows_with_moments(moments)
        views = {view: rows[:, moments.columns[view]] / scale for view, scale in scales.items()}
        weights: list[Matrix] = []
        if len(views) > 1:
            narrowest = min(view.shape[1] for view in views.values())
            method = self._method(min(self.n_components, narrowest)).fit(list(views.values()))
            weights = [np.asarray(A) for A in method.weights_]
        k = weights[0].shape[1] if weights else 0
        self.means_ = moments.means
        self.weights_ = {view: np.zeros((part.shape[1], k)) for view, part in X.items()}
        for view, A in zip(
            views, weights, strict=False
        ):  # found is empty with fewer than two views
            self.weights_[view] = A / scales[view]

    @abstractmethod
    def _method(self, n_components: int) -> Any:
        """Return the estimator of cca-zoo, without centring."""


def _view_scales(moments: LinkMoments) -> dict[str, float]:
    """Return the root of each view's mean variance, so that shrinkage does not depend on units.

    Views that have no links, or are constant over them, are left out.
    """
    scales = {}
    for view, part in moments.columns.items():
        mean = float(np.diagonal(moments.G)[part].mean())
        if mean > 0:
            scales[view] = float(np.sqrt(mean))
    return scales


def _rows_with_moments(moments: LinkMoments) -> Matrix:
    r"""Return rows R of mean 0 with :math:`R^\top R / (r - 1) = G + H`, as the aligned rows have.

    Each row is there with both signs, so that centring does not change them.
    """
    diagonal = np.diagonal(moments.G)
    # Scale to a unit diagonal first, so that columns of small numbers count in the rank.
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = (moments.G + moments.H) / np.outer(unit, unit)
    # Cholesky with pivots, P^T M P = U^T U, takes a tenth of the time of an eigendecomposition.
    U, pivots, rank, _ = lapack.dpstrf(scaled, tol=1e-11)
    half = np.zeros((rank, len(unit)))
    half[:, pivots - 1] = np.triu(U)[:rank]
    half *= unit / np.sqrt(2)
    rows = np.vstack([half, -half]) if rank else np.zeros((2, len(unit)))
    return np.asarray(rows * np.sqrt(len(rows) - 1))


class CCA(AlignedMethod):
    r"""Canonical correlation analysis.

    One linear map per view, so that the outputs for aligned rows have maximal correlation.
    Many-to-many links become aligned rows, one per link with weight w.

    .. math:: \max_{A^{(1)}, A^{(2)}} \sum_i
              \langle A^{(1)\top} x_i^{(1)}, A^{(2)\top} x_i^{(2)} \rangle
              \quad \text{subject to} \quad A^{(d)\top} X^{(d)\top} X^{(d)} A^{(d)} = I

    Choose it for two views with one-to-one links, as the first method to compare with. It finds no
    more axes than the narrower view has columns.

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
        The number of axes k is at most K and at most the number of columns of each view.

    References
    ----------
    H. Hotelling, "Relations between two sets of variates", Biometrika 1936.
    """

    n_views = 2

    def _method(self, n_components: int) -> Any:
        from cca_zoo.linear import RidgeCCA

        return RidgeCCA(n_components, center=False, shrinkage=float(self.shrinkage))


class MCCA(AlignedMethod):
    r"""Multiset canonical correlation analysis.

    One linear map per view, so that the sum of correlations over all pairs of views is maximal for
    aligned rows. Many-to-many links become aligned rows, one per link with weight w; a view that
    the link does not belong to has its mean there.

    .. math:: \max_A \sum_{d \ne e} \sum_i
              \langle A^{(d)\top} x_i^{(d)}, A^{(e)\top} x_i^{(e)} \rangle
              \quad \text{subject to} \quad
              \frac{1}{D} \sum_d A^{(d)\top} X^{(d)\top} X^{(d)} A^{(d)} = I

    Choose it for several views with one-to-one links. It finds no more axes than the narrowest view
    has columns.

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
        The number of axes k is at most K and at most the number of columns of each view.

    References
    ----------
    J. R. Kettenring, "Canonical analysis of several sets of variables", Biometrika 1971.
    """

    n_views = "D"

    def _method(self, n_components: int) -> Any:
        from cca_zoo import linear

        return linear.MCCA(n_components, center=False, shrinkage=float(self.shrinkage), pca=False)


class CvGE(PencilMethod):
    r"""Cross-view graph embedding.

    One linear map for each of two views, so that linked entities have close vectors, for any
    numbers of links. It is CDMCA with two views, and CCA if the links are one-to-one.

    .. math:: \max_\psi \sum_{i,j} w_{ij} \langle \psi^{(d_i)\top} x_i, \psi^{(d_j)\top} x_j \rangle
              \quad \text{subject to} \quad
              \sum_d \psi^{(d)\top} X^{(d)\top} D^{(d)} X^{(d)} \psi^{(d)} = I

    Choose it for two views with many-to-many links, when a linear map is enough. For more views use
    CDMCA.

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far each view's covariance is moved towards a multiple of the identity.
    center
        Whether to subtract each view's mean, weighted by the entities' links.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        The k axes, at most K, are those with positive eigenvalues.
    eigenvalues_
        (k,), largest first: the correlation of linked entities along each axis, if shrinkage is 0.

    References
    ----------
    Z. Huang, S. Shan, H. Zhang, S. Lao and X. Chen, "Cross-view graph embedding", ACCV 2012.
    """

    n_views = 2


class LPP(PencilMethod):
    r"""Locality preserving projections.

    A linear map of the features that keeps linked entities close: Laplacian eigenmaps with axes
    that are linear functions of the features, which also embed new entities. It is CDMCA with one
    view.

    .. math:: \min_\psi \sum_{i,j} w_{ij} \| \psi^\top x_i - \psi^\top x_j \|^2
              \quad \text{subject to} \quad \psi^\top X^\top D X \psi = I

    Choose it for one view with features, when a linear map is enough and no training loop is
    wanted. With more columns than links it needs shrinkage.

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far the covariance is moved towards a multiple of the identity. The formula
        holds for 0; otherwise inner products of linked entities are maximised.
    center
        Whether to subtract the mean of the rows, weighted by the entities' links.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        The k axes, at most K, are those with positive eigenvalues.
    eigenvalues_
        (k,), largest first: 1 minus the Laplacian's generalised eigenvalues, if shrinkage is 0.

    References
    ----------
    X. He and P. Niyogi, "Locality preserving projections", NIPS 2003.
    """

    n_views = 1


class HIMFAC(PencilMethod):
    r"""Relation prediction for several types of objects by dimension reduction.

    One linear map per view, so that linked entities of any views are close, from the graph
    Laplacian of all links. It is mathematically the same as CDMCA, with distances instead of inner
    products.

    .. math:: \min_\psi \sum_{i,j} w_{ij} \| \psi^{(d_i)\top} x_i - \psi^{(d_j)\top} x_j \|^2
              \quad \text{subject to} \quad \psi^\top X^\top D X \psi = I

    Choose it to compare with literature that uses it by name; its vectors are those of CDMCA with
    the constraint "links".

    Parameters
    ----------
    n_components
        Dimension K.
    shrinkage
        From 0 to 1: how far each view's covariance is moved towards a multiple of the identity. The
        formula holds for 0; otherwise inner products of linked entities are maximised.
    center
        Whether to subtract each view's mean, weighted by the entities' links.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        The k axes, at most K, are those with positive eigenvalues.
    eigenvalues_
        (k,), largest first: 1 minus the Laplacian's generalised eigenvalues, if shrinkage is 0.

    References
    ----------
    N. Nori, D. Bollegala and H. Kashima, "Multinomial relation prediction in social data: a
    dimension reduction approach", AAAI 2012.
    """

    n_views = "D"
