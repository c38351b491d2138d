r"""Methods that want aligned rows: one row per link, each view showing the end it has there.

A link :math:`(i, j)` of weight w becomes one row of weight w that holds :math:`x_i` and
:math:`x_j`; a view that the link does not touch shows its mean. Linear methods see second moments
only, so many links are handed over as few rows with the same moments: no more than there are
columns.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from pmvge.baselines.linear import LinearMethod
from pmvge.baselines.moments import LinkMoments, link_moments
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]


class AlignedMethod(LinearMethod):
    """A method of cca-zoo on the aligned rows of the links."""

    many_to_many = False
    within_view = False
    libraries = ("cca_zoo",)

    def _solve(self, graph: MultiViewGraph, X: dict[str, Features]) -> None:
        moments = link_moments(graph, X, center=True, where=self._name)
        scales = _scales(moments)
        rows = pseudo_rows(moments)
        views = {view: rows[:, moments.columns[view]] / scale for view, scale in scales.items()}
        found: list[Matrix] = []
        if len(views) > 1:
            narrowest = min(view.shape[1] for view in views.values())
            method = self._method(min(self.n_components, narrowest)).fit(list(views.values()))
            found = [np.asarray(A) for A in method.weights_]
        k = found[0].shape[1] if found else 0
        self.means_ = moments.means
        self.weights_ = {view: np.zeros((part.shape[1], k)) for view, part in X.items()}
        for view, A in zip(views, found, strict=False):  # none, if there is nothing to correlate
            self.weights_[view] = A / scales[view]

    @abstractmethod
    def _method(self, n_components: int) -> Any:
        """The estimator of cca-zoo, told not to centre."""


def _scales(moments: LinkMoments) -> dict[str, float]:
    """The root of each view's mean variance: shrinkage then means the same in any unit.

    Views that do not vary over the links, or have none, are left out.
    """
    scales = {}
    for view, part in moments.columns.items():
        mean = float(np.diagonal(moments.G)[part].mean())
        if mean > 0:
            scales[view] = float(np.sqrt(mean))
    return scales


def pseudo_rows(moments: LinkMoments) -> Matrix:
    r"""Rows R with :math:`R^\top R / (r - 1) = G + H`, the moments of the aligned rows, mean 0.

    Each row stands there with both signs, so that whoever centres them changes nothing.
    """
    diagonal = np.diagonal(moments.G)
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))  # small columns are no rounding
    scaled = (moments.G + moments.H) / np.outer(unit, unit)
    # Cholesky with pivots, P^T M P = U^T U: a tenth of the time of eigenvectors.
    U, pivots, rank, _ = lapack.dpstrf(scaled, tol=1e-11)
    half = np.zeros((rank, len(unit)))
    half[:, pivots - 1] = np.triu(U)[:rank]
    half *= unit / np.sqrt(2)
    rows = np.vstack([half, -half]) if rank else np.zeros((2, len(unit)))
    return np.asarray(rows * np.sqrt(len(rows) - 1))
