"""Variational EM for the stochastic block model, and its initial partitions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg
from scipy.special import entr, softmax
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from pmvge.baselines.eigen import largest_eigenpairs
from pmvge.baselines.sge import spectral_axes

Matrix = NDArray[np.float64]
CHUNKS = 8  # groups of nodes that are updated one after another
MAX_SWEEPS = 20  # passes over all nodes of the greedy partition
MAX_HALVINGS = 20  # of a step that would lower the bound; then the step is skipped
LOG_FLOOR = 1e-300  # replaces 0 in logarithms
SMOOTHING = 0.1  # share of an initial membership that is spread over all blocks


@dataclass(frozen=True, eq=False)
class BlockFit:
    """The result of variational EM from one initial partition."""

    tau: Matrix  # (n, C)
    beta: Matrix  # (C, C)
    elbo_path: list[float]  # the bound after every iteration


def fit_blocks(
    W: sparse.csr_array,
    labels: NDArray[np.integer[Any]],
    C: int,
    rng: np.random.Generator,
    max_iter: int,
    least_gain: float,
) -> BlockFit:
    """Return the result of variational EM from a partition. No iteration lowers the bound.

    It stops after ``max_iter`` iterations, or when one raises the bound by less than
    ``least_gain``.
    """
    tau = np.full((len(labels), C), SMOOTHING / C)
    tau[np.arange(len(labels)), labels] += 1 - SMOOTHING
    largest, elbo_path = W.data.max(), []
    beta = mean_weights(*block_totals(W, tau), largest)
    for _ in range(max_iter):
        for rows in np.array_split(rng.permutation(len(tau)), min(CHUNKS, len(tau))):
            update_memberships(W, tau, beta, rows)
        weights, pairs = block_totals(W, tau)
        beta = mean_weights(weights, pairs, largest)
        elbo_path.append(lower_bound(weights, pairs, beta, tau))
        if len(elbo_path) > 1 and elbo_path[-1] - elbo_path[-2] < least_gain:
            break
    return BlockFit(tau, beta, elbo_path)


def block_totals(W: sparse.csr_array, tau: Matrix) -> tuple[Matrix, Matrix]:
    """Return the weight and the number of pairs between blocks, (C, C), in both orders."""
    sizes = tau.sum(axis=0)
    return tau.T @ (W @ tau), np.outer(sizes, sizes) - tau.T @ tau


def mean_weights(weights: Matrix, pairs: Matrix, largest: float) -> Matrix:
    r"""Return the optimal :math:`\beta`: the mean weight of the pairs of every two blocks."""
    beta = np.divide(weights, pairs, out=np.zeros_like(pairs), where=pairs > 1e-12)
    # A mean above the largest weight is a rounding error of a very small number of pairs.
    return np.clip((beta + beta.T) / 2, 0.0, largest)


def lower_bound(weights: Matrix, pairs: Matrix, beta: Matrix, tau: Matrix) -> float:
    r"""Return the evidence lower bound at the optimal :math:`\pi`."""
    sizes = tau.sum(axis=0)
    links = (weights * safe_log(beta) - pairs * beta).sum() / 2
    return float(links + sizes @ safe_log(sizes / len(tau)) + entr(tau).sum())


def update_memberships(
    W: sparse.csr_array, tau: Matrix, beta: Matrix, rows: NDArray[np.integer[Any]]
) -> None:
    """Move some nodes towards their optimal memberships, in place, without lowering the bound.

    Each node's optimum assumes that the others do not move, so a full step of all may overshoot and
    is halved until the bound does not fall. Along the step the bound is a quadratic function plus
    an entropy, and it rises at first.
    """
    sizes, old = tau.sum(axis=0), tau[rows]
    logs, part = safe_log(beta), W[rows]
    logits = (part @ tau) @ logs - (sizes - old) @ beta + safe_log(sizes / len(tau))
    step = softmax(logits, axis=1) - old
    total = step.sum(axis=0)
    curve = ((part[:, rows] @ step) * (step @ logs)).sum()
    curve -= total @ beta @ total - ((step @ beta) * step).sum()
    slope, entropy, t = (logits * step).sum(), entr(old).sum(), 1.0
    for _ in range(MAX_HALVINGS):
        new = np.maximum(old + t * step, 0.0)
        if t * slope + t * t * curve / 2 + entr(new).sum() >= entropy:
            tau[rows] = new
            return
        t /= 2


def safe_log(x: Matrix) -> Matrix:
    """Return the logarithm of x, and that of LOG_FLOOR where x is 0."""
    return np.asarray(np.log(np.maximum(x, LOG_FLOOR)))


def initial_partitions(
    W: sparse.csr_array, C: int, n_starts: int, seed: int
) -> Iterator[NDArray[np.integer[Any]]]:
    """Yield initial partitions: clusters of two spectral embeddings, then greedy random ones."""
    rng = np.random.default_rng(seed)
    for start in range(n_starts):
        if start == 0:
            yield k_means(adjacency_axes(W, C, rng), C, rng)
        elif start == 1:
            yield k_means(laplacian_axes(W, C, seed), C, rng)
        else:
            yield greedy_partition(W, rng.permutation(np.arange(W.shape[0]) % C), C, rng)


def greedy_partition(
    W: sparse.csr_array, labels: NDArray[np.integer[Any]], C: int, rng: np.random.Generator
) -> NDArray[np.integer[Any]]:
    """Move one node after another to its best block until none moves, and return the blocks.

    Random soft memberships would all converge to the same values; hard ones do not.
    """
    n, labels = len(labels), labels.copy()
    mean = W.sum() / (n * (n - 1))
    for _ in range(MAX_SWEEPS):
        before, one_hot = labels.copy(), np.eye(C)[labels]
        sizes = one_hot.sum(axis=0)
        pairs = np.outer(sizes, sizes) - np.diag(sizes)
        # Add a pair of mean weight, so that two blocks without links do not get log(0).
        beta = (one_hot.T @ (W @ one_hot) + mean) / (pairs + 1)
        logs, priors, expected = np.log(beta), np.log(sizes + 1), sizes @ beta
        for i in rng.permutation(n):
            links, old = slice(W.indptr[i], W.indptr[i + 1]), labels[i]
            observed = W.data[links] @ logs[labels[W.indices[links]]]
            new = (observed - (expected - beta[old]) + priors).argmax()
            expected += beta[new] - beta[old]
            labels[i] = new
        if (labels == before).all():
            break
    return labels


def laplacian_axes(W: sparse.csr_array, C: int, seed: int) -> Matrix:
    """Return the axes of spectral graph embedding, (n, at most C).

    They separate blocks with many links within them, also in sparse graphs.
    """
    degrees = np.asarray(W.sum(axis=1)).ravel()
    linked = np.flatnonzero(degrees)
    axes = spectral_axes(W[linked][:, linked], degrees[linked], C, seed)[1]
    Y = np.zeros((len(degrees), axes.shape[1]))
    Y[linked] = axes * np.sqrt(degrees[linked, None])
    return Y


def adjacency_axes(W: sparse.csr_array, C: int, rng: np.random.Generator) -> Matrix:
    """Return the C eigenvectors of W, normalised by degrees, with the largest |eigenvalue|.

    They separate blocks with many links within them, and blocks with few. The mean degree is added
    to the degrees, so that nodes with few links do not get axes of their own.
    """
    degrees = np.asarray(W.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.sqrt(degrees + degrees.mean()))
    N = (scale @ W @ scale).tocsr()

    def squared(x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(N @ (N @ x))

    A = linalg.LinearOperator(N.shape, matvec=squared, matmat=squared, dtype=np.float64)
    return largest_eigenpairs(A, C, rng)[1]


def k_means(Y: Matrix, C: int, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """Return the k-means clusters of rows, on one thread for reproducible rounding."""
    model = KMeans(C, n_init=3, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        labels: NDArray[np.integer[Any]] = model.fit_predict(Y)
    return labels
