"""Cross-domain matching correlation analysis, and the linear PMvGE that it approximates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pmvge.baselines.base import input_rows
from pmvge.baselines.linear import PencilMethod, leading_axes
from pmvge.checks import integer, one_of, optional, real
from pmvge.errors import GraphError
from pmvge.graph import MultiViewGraph

CONSTRAINTS = ("links", "nodes")


class CDMCA(PencilMethod):
    r"""Cross-domain matching correlation analysis.

    One linear map per view, so that linked entities of any views have vectors of similar direction,
    under a constraint on the variance of all vectors together. It generalises canonical correlation
    analysis to any number of views and to weighted many-to-many links.

    .. math:: \max_\psi \sum_{i,j} w_{ij} \langle \psi^{(d_i)\top} x_i, \psi^{(d_j)\top} x_j \rangle
              \quad \text{subject to} \quad
              \sum_i c_i \psi^{(d_i)\top} x_i x_i^\top \psi^{(d_i)} = I

    Choose it when a linear map is enough; it is exact and fast, and only ``shrinkage`` needs
    tuning. It does not predict expected weights.

    Parameters
    ----------
    n_components
        Dimension K.
    constraint
        "links": an entity counts :math:`c_i = \sum_j w_{ij}` times, the original constraint;
        "nodes": every entity counts once, :math:`c_i = 1`, as in supplement C of the PMvGE paper.
    shrinkage
        From 0 to 1: how far each view's covariance is moved towards a multiple of the identity. It
        should be positive if a view has many columns for its number of links.
    center
        Whether to subtract each view's mean, weighted by :math:`c_i`.

    Attributes
    ----------
    weights_, means_
        ``{view: (p, k)}`` and ``{view: (p,)}``: a row x has the vector ``(x - mean) @ weights``.
        The k axes, at most K, are those with positive eigenvalues.
    eigenvalues_
        (k,), largest first: the correlation along each axis, if the constraint is "links" and
        shrinkage is 0.

    References
    ----------
    H. Shimodaira, "Cross-validation of matching correlation analysis by resampling matching
    weights", Neural Networks 2016.
    """

    n_views = "D"
    checks: ClassVar = {"constraint": one_of(*CONSTRAINTS)}

    def __init__(
        self,
        n_components: int = 100,
        *,
        constraint: str = "links",
        shrinkage: float = 0.1,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.constraint = constraint
        self.shrinkage = shrinkage
        self.center = center

    @property
    def _by_weight(self) -> bool:
        return bool(self.constraint == "links")


@dataclass(frozen=True, eq=False)
class QuadraticSolution:
    r"""The maximiser of the likelihood's quadratic approximation.

    A row x of a view has the vector ``(x - means[view]) @ weights[view]``.
    """

    weights: Mapping[str, NDArray[np.float64]]  # {view: (p, k)}, k at most K
    means: Mapping[str, NDArray[np.float64]]  # {view: (p,)}
    gamma: NDArray[np.float64]  # (k,), positive
    alpha: float


def quadratic_pmvge(
    graph: MultiViewGraph, n_components: int, *, alpha: float | None = None
) -> QuadraticSolution:
    r"""Return linear PMvGE in closed form, for weak signals (supplement C.2 of the paper).

    The likelihood of linear PMvGE with one :math:`\alpha_0` for all pairs of views, to second order
    around :math:`g = 0`, is maximised by

    .. math:: \hat\psi = G^{-1/2} U_K \Gamma^{1/2}, \qquad \gamma_k = \lambda_k / \alpha_0,

    with :math:`\lambda_k, U_K` the top eigenvalues and eigenvectors of :math:`G^{-1/2} H G^{-1/2}`,
    :math:`G = X^\top X`, :math:`H = X^\top W X`, and rows centred view by view. This is the
    modified CDMCA with scaled axes. All pairs of entities count as observed, including those of
    views without links. Axes with :math:`\lambda_k \le 0` have :math:`\gamma_k = 0` and are left
    out. ``alpha`` is :math:`\alpha_0`, by default the mean weight of a pair. Raise GraphError or
    ParameterError if an argument is not valid.
    """
    if not isinstance(graph, MultiViewGraph):
        raise GraphError(f"quadratic_pmvge: expected a MultiViewGraph, got {type(graph).__name__}")
    integer(1)("quadratic_pmvge: n_components", n_components)
    optional(real(0, open_low=True))("quadratic_pmvge: alpha", alpha)
    values, psi, means = leading_axes(
        graph,
        input_rows(graph),
        n_components,
        shrinkage=0.0,
        by_weight=False,
        where="quadratic_pmvge",
    )
    alpha_0 = 2 * graph.total_weight / graph.n_nodes**2 if alpha is None else float(alpha)
    gamma = values / alpha_0
    weights = {view: A * np.sqrt(gamma) for view, A in psi.items()}
    return QuadraticSolution(weights, means, gamma, alpha_0)
