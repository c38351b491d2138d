"""Spectral graph embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph, linalg

from pmvge.baselines.base import Baseline
from pmvge.baselines.eigen import largest_eigenpairs
from pmvge.baselines.flattening import flatten
from pmvge.graph import MultiViewGraph


class SGE(Baseline):
    r"""Spectral graph embedding, also known as Laplacian eigenmaps.

    Linked nodes get close vectors, under the constraint of a fixed variance along every axis. The
    axes are eigenvectors of the graph's normalised Laplacian.

    .. math:: \min_Y \sum_{i,j} w_{ij} \| y_i - y_j \|^2
              \quad \text{subject to} \quad Y^\top D Y = I, \quad Y^\top D 1 = 0

    Choose it as the classical method for a graph without features; it is exact and has no
    parameters to tune. In a graph with many components the first axes only separate the components.

    Parameters
    ----------
    n_components
        Dimension K.
    random_state
        Seed of the eigensolver's initial vector.

    Attributes
    ----------
    eigenvalues_
        (K,) of the normalised Laplacian, smallest first.

    References
    ----------
    M. Belkin and P. Niyogi, "Laplacian eigenmaps and spectral techniques for embedding and
    clustering", NIPS 2001.

    Examples
    --------
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines import SGE
    >>> path = MultiViewGraph({"node": 4}, {("node", "node"): ([0, 1, 2], [1, 2, 3])})
    >>> (SGE(1).fit(path).embeddings_["node"].ravel() > 0).tolist()
    [True, True, False, False]
    """

    n_views = 0
    many_to_many = True
    nonlinear = False
    inductive = False
    likelihood_based = False

    eigenvalues_: NDArray[np.float64]

    def __init__(self, n_components: int = 100, *, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        flat = flatten(graph)
        degrees = flat.degrees
        linked = np.flatnonzero(degrees)
        Y = np.zeros((len(degrees), self.n_components))
        values, Y_linked = spectral_axes(
            flat.W[linked][:, linked], degrees[linked], self.n_components, seed
        )
        Y[linked, : len(values)] = Y_linked
        self.eigenvalues_ = values
        return flat.split(Y)


def spectral_axes(
    W: sparse.csr_array, degrees: NDArray[np.float64], K: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return eigenvalues of the normalised Laplacian, and :math:`D^{-1/2}` times its eigenvectors.

    The eigenvectors of 0 are constant on components and have a closed form; the overall constant
    vector is left out. Lanczos computes the other eigenvectors.
    """
    n_parts, part = csgraph.connected_components(W, directed=False)
    between = component_contrasts(part, degrees, min(K, n_parts - 1))
    root = np.sqrt(degrees)
    N = sparse.diags_array(1 / root) @ W @ sparse.diags_array(1 / root)
    volume = np.bincount(part, degrees)
    Q = sparse.csr_array((root / np.sqrt(volume[part]), (np.arange(len(root)), part)))

    def deflated(x: NDArray[Any]) -> NDArray[Any]:
        # Moves the eigenvalue 1 of the components to -2, below all others.
        return np.asarray(N @ x - 3 * (Q @ (Q.T @ x)))

    A = linalg.LinearOperator(W.shape, matvec=deflated, matmat=deflated, dtype=np.float64)
    wanted = min(K - between.shape[1], len(root) - n_parts)
    if wanted <= 0:
        return np.zeros(between.shape[1]), between
    values, U = largest_eigenpairs(A, wanted, np.random.default_rng(seed))
    eigenvalues = np.concatenate([np.zeros(between.shape[1]), 1 - values])
    return eigenvalues, np.hstack([between, U / root[:, None]])


def component_contrasts(
    part: NDArray[np.integer[Any]], degrees: NDArray[np.float64], k: int
) -> NDArray[np.float64]:
    """Return k vectors, constant on components, D-orthonormal and D-orthogonal to the constant.

    Each vector separates one component from all larger ones, in descending order of size.
    """
    volume = np.bincount(part, degrees)
    rank = np.empty(len(volume), np.int64)
    order = np.argsort(-volume, kind="stable")
    rank[order] = np.arange(len(volume))
    sorted_volume, node_rank = volume[order], rank[part]
    before = np.cumsum(sorted_volume)
    Y = np.zeros((len(part), k))
    for axis in range(k):
        component, larger = sorted_volume[axis + 1], before[axis]
        size = np.sqrt(component * larger / (component + larger))
        Y[node_rank == axis + 1, axis] = size / component
        Y[node_rank <= axis, axis] = -size / larger
    return Y
