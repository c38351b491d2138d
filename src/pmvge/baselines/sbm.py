"""Stochastic block model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from pmvge.baselines.base import Baseline, flat
from pmvge.baselines.flattening import flatten
from pmvge.baselines.variational_em import fit_blocks, initial_partitions
from pmvge.checks import Check, integer, real
from pmvge.errors import InputError, short
from pmvge.graph import Features, MultiViewGraph, check_features

Matrix = NDArray[np.float64]


class SBM(Baseline):
    r"""Stochastic block model with Poisson links, fitted by variational EM.

    Every node belongs to one of C blocks, and the expected weight of a link depends on the two
    blocks only. The fit maximises a lower bound of the likelihood over soft memberships
    :math:`\tau`, from several initial partitions.

    .. math:: \max_{\tau, \beta, \pi} \sum_{i<j} \sum_{k,l} \tau_{ik} \tau_{jl}
              (w_{ij} \log \beta_{kl} - \beta_{kl})
              + \sum_{i,k} \tau_{ik} \log \frac{\pi_k}{\tau_{ik}}

    Choose it to find groups of nodes with the same link pattern, including groups with few links
    among themselves. A vector holds the node's block only, and if degrees differ widely the blocks
    follow the degrees.

    Parameters
    ----------
    n_components
        Number of blocks C.
    n_starts
        Number of initial partitions: two from spectral clustering, then random ones. The fit with
        the largest bound is kept.
    max_iter
        Maximum number of EM iterations per initial partition.
    tol
        EM stops when an iteration raises the bound by less than this share of the total weight.
    random_state
        Seed of the initial partitions.

    Attributes
    ----------
    blocks_
        (n,), the most probable block of every node.
    memberships_
        (n, C), the probabilities :math:`\tau` of the blocks. ``embed`` also accepts such rows
        instead of features, unless the features have C columns.
    beta_
        (C, C), the expected weight of a link between two nodes, by their blocks; 0 for blocks
        without a pair of nodes.
    proportions_
        (C,), the shares :math:`\pi` of the blocks.
    elbo_
        The lower bound of the log-likelihood, without its constant :math:`\sum \log w_{ij}!`.
    elbo_path_
        The bound after every iteration of the fit that was kept.

    References
    ----------
    K. Nowicki and T. A. B. Snijders, "Estimation and prediction for stochastic blockstructures",
    Journal of the American Statistical Association 2001.
    J.-J. Daudin, F. Picard and S. Robin, "A mixture model for random graphs", Statistics and
    Computing 2008.

    Examples
    --------
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.sbm import SBM
    >>> star = MultiViewGraph({"node": 5}, {("node", "node"): ([0, 0, 0, 0], [1, 2, 3, 4])})
    >>> blocks = SBM(2, random_state=0).fit(star).blocks_
    >>> (blocks == blocks[0]).tolist()
    [True, False, False, False, False]
    """

    n_views = 1
    many_to_many = True
    nonlinear = False
    inductive = True
    likelihood_based = True
    embeds_isolated = True  # entities without links can form a block

    checks: ClassVar[Mapping[str, Check]] = {
        "n_starts": integer(1),
        "max_iter": integer(1),
        "tol": real(0),
    }

    blocks_: NDArray[np.int64]
    memberships_: Matrix
    beta_: Matrix
    proportions_: Matrix
    elbo_: float
    elbo_path_: Matrix

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_starts: int = 6,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        (view,) = graph.view_names
        W, n = flatten(graph).W, graph.n_nodes
        C = min(self.n_components, n)  # the other blocks are empty
        least_gain = self.tol * float(W.sum()) / 2
        best = max(
            (
                fit_blocks(W, z, C, np.random.default_rng([seed, k]), self.max_iter, least_gain)
                for k, z in enumerate(initial_partitions(W, C, self.n_starts, seed))
            ),
            key=lambda fit: fit.elbo_path[-1],
        )
        self.memberships_ = np.pad(best.tau, ((0, 0), (0, self.n_components - C)))
        self.beta_ = np.pad(best.beta, (0, self.n_components - C))
        self.proportions_ = self.memberships_.mean(axis=0)
        self.blocks_ = self.memberships_.argmax(axis=1)
        self.elbo_path_ = np.array(best.elbo_path)
        self.elbo_ = best.elbo_path[-1]
        X = graph.views[view]
        self._map = None if X is None else block_map(flat(X), self.blocks_)
        return {view: self._one_hot(self.blocks_)}

    def _one_hot(self, blocks: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        one_hot = np.zeros((len(blocks), self.n_components), np.float32)
        one_hot[np.arange(len(blocks)), blocks] = 1
        return one_hot

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        if self._map is None:  # all nodes are in one block
            return self._one_hot(np.full(X.shape[0], self.blocks_[0]))
        return self._one_hot(self._map.predict(X.astype(np.float64)))

    def _embed_checked(self, view: str, X: Any) -> NDArray[np.float32]:
        """Return vectors, also from memberships (n, C), which are recognised by their width."""
        C = self.n_components
        if self._row_shapes[view] == (C,) or row_shape(X) != (C,):
            return super()._embed_checked(view, X)
        tau = check_features(f"view {view!r}", X, InputError)
        dense = tau if isinstance(tau, np.ndarray) else tau.toarray()
        invalid = (dense < 0).any(axis=1) | (np.abs(dense.sum(axis=1) - 1) > 1e-3)
        if invalid.any():
            row = int(invalid.argmax())
            raise InputError(
                f"view {view!r}, row {row}: expected {C} non-negative memberships that sum to 1, "
                f"got {short(dense[row].tolist())}"
            )
        return self._one_hot(dense.argmax(axis=1))


def block_map(X: Features, blocks: NDArray[np.integer[Any]]) -> Any:
    """Return a multinomial logistic regression of blocks on features; None if all are in one."""
    if blocks.min() == blocks.max():
        return None
    scaler = StandardScaler() if isinstance(X, np.ndarray) else MaxAbsScaler()
    classifier = make_pipeline(scaler, LogisticRegression(max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes")
        return classifier.fit(X.astype(np.float64), blocks)


def row_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of a row of an array-like; () if it is not one."""
    try:
        return tuple((X if hasattr(X, "shape") else np.asarray(X)).shape[1:])
    except ValueError:  # ragged
        return ()
