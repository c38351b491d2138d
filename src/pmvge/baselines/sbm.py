"""The stochastic block model."""

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
from pmvge.baselines.blocks import fit_blocks, starts
from pmvge.baselines.flattening import flatten
from pmvge.checks import Check, real, whole
from pmvge.errors import InputError
from pmvge.graph import Features, MultiViewGraph, check_features

Matrix = NDArray[np.float64]


class SBM(Baseline):
    r"""Stochastic block model with Poisson links, fitted by variational EM.

    Every node belongs to one of C blocks, and the weight of a link depends on the two blocks alone.
    The blocks are found by maximising a lower bound of the likelihood over soft memberships
    :math:`\tau`, from several starts.

    .. math:: \max_{\tau, \beta, \pi} \sum_{i<j} \sum_{k,l} \tau_{ik} \tau_{jl}
              (w_{ij} \log \beta_{kl} - \beta_{kl})
              + \sum_{i,k} \tau_{ik} \log \frac{\pi_k}{\tau_{ik}}

    Choose it to find groups that link alike, also groups that avoid links among themselves.
    It knows nothing but the block of a node, and where degrees differ much it groups by degree.

    Parameters
    ----------
    n_components
        Number of blocks C.
    n_starts
        How often the fit starts anew: the first two times from spectral clusters, then from random
        blocks. The best bound wins.
    max_iter
        Most rounds of EM per start.
    tol
        A start ends when a round raises the bound by less than this share of the total weight.
    random_state
        Seed of the starts.

    Attributes
    ----------
    blocks_
        (n,), the most probable block of every node.
    memberships_
        (n, C), the probabilities :math:`\tau` of the blocks. ``embed`` takes rows like these as
        well as features, unless the features have C columns, too.
    beta_
        (C, C), the expected weight between two nodes of two blocks; 0 where there are no two.
    proportions_
        (C,), the shares :math:`\pi` of the blocks.
    elbo_
        The lower bound of the log-likelihood, without its constant :math:`\sum \log w_{ij}!`.
    elbo_path_
        The bound after every round of the best start.

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
    knows_isolated = True  # they are alike, and may be a block

    checks: ClassVar[Mapping[str, Check]] = {
        "n_starts": whole(1),
        "max_iter": whole(1),
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
        C = min(self.n_components, n)  # other blocks stay empty
        least_gain = self.tol * float(W.sum()) / 2
        best = max(
            (
                fit_blocks(W, z, C, np.random.default_rng([seed, k]), self.max_iter, least_gain)
                for k, z in enumerate(starts(W, C, self.n_starts, seed))
            ),
            key=lambda found: found.path[-1],
        )
        self.memberships_ = np.pad(best.tau, ((0, 0), (0, self.n_components - C)))
        self.beta_ = np.pad(best.beta, (0, self.n_components - C))
        self.proportions_ = self.memberships_.mean(axis=0)
        self.blocks_ = self.memberships_.argmax(axis=1)
        self.elbo_path_ = np.array(best.path)
        self.elbo_ = best.path[-1]
        X = graph.views[view]
        self._map = None if X is None else block_map(flat(X), self.blocks_)
        return {view: self._one_hot(self.blocks_)}

    def _one_hot(self, blocks: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        one_hot = np.zeros((len(blocks), self.n_components), np.float32)
        one_hot[np.arange(len(blocks)), blocks] = 1
        return one_hot

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        if self._map is None:  # all nodes were in one block
            return self._one_hot(np.full(X.shape[0], self.blocks_[0]))
        return self._one_hot(self._map.predict(X.astype(np.float64)))

    def _embed_known(self, view: str, X: Any) -> NDArray[np.float32]:
        """Also from memberships, (n, C): told from features by their width, not by their values."""
        C = self.n_components
        if self._row_shapes[view] == (C,) or width(X) != (C,):
            return super()._embed_known(view, X)
        tau = check_features(f"view {view!r}", X, InputError)
        dense = tau if isinstance(tau, np.ndarray) else tau.toarray()
        if (dense < 0).any() or (np.abs(dense.sum(axis=1) - 1) > 1e-3).any():
            raise InputError(
                f"view {view!r}: rows of {C} numbers are memberships of the {C} blocks: expected "
                "non-negative rows that sum to 1"
            )
        return self._one_hot(dense.argmax(axis=1))


def block_map(X: Features, blocks: NDArray[np.integer[Any]]) -> Any:
    """A multinomial logistic regression of blocks on features; None if all are in one block."""
    if blocks.min() == blocks.max():
        return None
    scaler = StandardScaler() if isinstance(X, np.ndarray) else MaxAbsScaler()
    classifier = make_pipeline(scaler, LogisticRegression(max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes")
        return classifier.fit(X.astype(np.float64), blocks)


def width(X: Any) -> tuple[int, ...]:
    """The shape of a row of anything like an array; () if it is none."""
    try:
        return tuple((X if hasattr(X, "shape") else np.asarray(X)).shape[1:])
    except ValueError:  # ragged
        return ()
