r"""Methods that want aligned rows: one row per link, each view showing the end it has there.

A link :math:`(i, j)` of weight w becomes one row of weight w that holds :math:`x_i` and
:math:`x_j`; a view that the link does not touch shows its mean. Linear methods see second moments
only, so many links are handed over as few rows with the same moments: no more than there are
columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.baselines.linear import LinearMethod
from pmvge.baselines.moments import LinkMoments, link_moments
from pmvge.features import Features
from pmvge.graph import MultiViewGraph

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
        views = [rows[:, part] / scales[view] for view, part in moments.columns.items()]
        widest = min(view.shape[1] for view in views)
        method = self._method(min(self.n_components, widest)).fit(views)
        self.weights_ = {
            view: np.asarray(A) / scales[view]
            for view, A in zip(moments.columns, method.weights_, strict=True)
        }
        self.means_ = moments.means

    def _method(self, n_components: int) -> Any:
        """The estimator of cca-zoo, told not to centre."""
        raise NotImplementedError


def _scales(moments: LinkMoments) -> dict[str, float]:
    """The root of each view's mean variance: shrinkage then means the same in any unit."""
    scales = {}
    for view, part in moments.columns.items():
        block = moments.G[part, part]
        mean = float(np.trace(block)) / len(block)
        scales[view] = np.sqrt(mean) if mean > 0 else 1.0
    return scales


def pseudo_rows(moments: LinkMoments) -> Matrix:
    r"""Rows R with :math:`R^\top R / (r - 1) = G + H`, the moments of the aligned rows, mean 0.

    Each row stands there with both signs, so that whoever centres them changes nothing.
    """
    values, vectors = np.linalg.eigh(moments.G + moments.H)
    kept = values > 1e-12 * max(float(values[-1]), 0.0)
    half = (vectors[:, kept] * np.sqrt(values[kept] / 2)).T
    rows = np.vstack([half, -half]) if len(half) else np.zeros((2, len(values)))
    return np.asarray(rows * np.sqrt(len(rows) - 1))
