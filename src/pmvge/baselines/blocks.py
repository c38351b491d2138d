"""Blocks of a graph by variational EM: the fit of the stochastic block model, and its starts."""

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

from pmvge.baselines.eigen import leading_of_operator
from pmvge.baselines.sge import spectral_axes

Matrix = NDArray[np.float64]
CHUNKS = 8  # parts of the nodes that are updated one after the other
SWEEPS = 20  # over all nodes, of moves one by one
HALVINGS = 20  # of a step that would lower the bound, before it is not made at all
LEAST = 1e-300  # stands for 0 in logarithms
SOFTNESS = 0.1  # what a start leaves to the other blocks


@dataclass(frozen=True, eq=False)
class Blocks:
    """What one start found."""

    tau: Matrix  # (n, C)
    beta: Matrix  # (C, C)
    path: list[float]  # the bound after every round


def fit_blocks(
    W: sparse.csr_array,
    labels: NDArray[np.integer[Any]],
    C: int,
    rng: np.random.Generator,
    max_iter: int,
    least_gain: float,
) -> Blocks:
    """Variational EM from a partition; no round lowers the bound."""
    tau = np.full((len(labels), C), SOFTNESS / C)
    tau[np.arange(len(labels)), labels] += 1 - SOFTNESS
    largest, path = W.data.max(), []
    beta = densities(*between_blocks(W, tau), largest)
    for _ in range(max_iter):
        for rows in np.array_split(rng.permutation(len(tau)), min(CHUNKS, len(tau))):
            climb(W, tau, beta, rows)
        weights, pairs = between_blocks(W, tau)
        beta = densities(weights, pairs, largest)
        path.append(bound(weights, pairs, beta, tau))
        if len(path) > 1 and path[-1] - path[-2] < least_gain:
            break
    return Blocks(tau, beta, path)


def between_blocks(W: sparse.csr_array, tau: Matrix) -> tuple[Matrix, Matrix]:
    """(C, C): the weight between every two blocks, and the number of pairs, each in both orders."""
    sizes = tau.sum(axis=0)
    return tau.T @ (W @ tau), np.outer(sizes, sizes) - tau.T @ tau


def densities(weights: Matrix, pairs: Matrix, largest: float) -> Matrix:
    r"""The best :math:`\beta`: the mean weight of the pairs of every two blocks."""
    beta = np.divide(weights, pairs, out=np.zeros_like(pairs), where=pairs > 1e-12)
    # A mean of weights: more than the largest is rounding, where there is hardly a pair.
    return np.clip((beta + beta.T) / 2, 0.0, largest)


def bound(weights: Matrix, pairs: Matrix, beta: Matrix, tau: Matrix) -> float:
    r"""The evidence lower bound at the best :math:`\pi`."""
    sizes = tau.sum(axis=0)
    links = (weights * log(beta) - pairs * beta).sum() / 2
    return float(links + sizes @ log(sizes / len(tau)) + entr(tau).sum())


def climb(W: sparse.csr_array, tau: Matrix, beta: Matrix, rows: NDArray[np.integer[Any]]) -> None:
    """Move some nodes towards their best memberships, as far as the bound does not fall.

    All at once they may overshoot, as the best place of each is one for the others as they were;
    but the way there rises at first, and along it the bound is a parabola plus an entropy.
    """
    sizes, old = tau.sum(axis=0), tau[rows]
    logs, part = log(beta), W[rows]
    pull = (part @ tau) @ logs - (sizes - old) @ beta + log(sizes / len(tau))
    step = softmax(pull, axis=1) - old
    total = step.sum(axis=0)
    curve = ((part[:, rows] @ step) * (step @ logs)).sum()
    curve -= total @ beta @ total - ((step @ beta) * step).sum()
    slope, entropy, t = (pull * step).sum(), entr(old).sum(), 1.0
    for _ in range(HALVINGS):
        new = np.maximum(old + t * step, 0.0)
        if t * slope + t * t * curve / 2 + entr(new).sum() >= entropy:
            tau[rows] = new
            return
        t /= 2


def log(x: Matrix) -> Matrix:
    """The logarithm, of 0 a very low number."""
    return np.asarray(np.log(np.maximum(x, LEAST)))


def starts(
    W: sparse.csr_array, C: int, n_starts: int, seed: int
) -> Iterator[NDArray[np.integer[Any]]]:
    """Partitions to start from: clusters of two spectral embeddings, then random ones."""
    rng = np.random.default_rng(seed)
    for start in range(n_starts):
        if start == 0:
            yield clusters(both_ends(W, C, rng), C, rng)
        elif start == 1:
            yield clusters(smooth_end(W, C, seed), C, rng)
        else:
            yield greedy(W, rng.permutation(np.arange(W.shape[0]) % C), C, rng)


def greedy(
    W: sparse.csr_array, labels: NDArray[np.integer[Any]], C: int, rng: np.random.Generator
) -> NDArray[np.integer[Any]]:
    """Move one node after the other to its best block, until none moves.

    Soft memberships that start at random all become equal, and stay so; hard ones do not.
    """
    n, labels = len(labels), labels.copy()
    mean = W.sum() / (n * (n - 1))
    for _ in range(SWEEPS):
        before, one_hot = labels.copy(), np.eye(C)[labels]
        sizes = one_hot.sum(axis=0)
        pairs = np.outer(sizes, sizes) - np.diag(sizes)
        # One more pair of the mean weight: an empty pair of blocks is not forbidden.
        beta = (one_hot.T @ (W @ one_hot) + mean) / (pairs + 1)
        logs, priors, expected = np.log(beta), np.log(sizes + 1), sizes @ beta
        for i in rng.permutation(n):
            links, old = slice(W.indptr[i], W.indptr[i + 1]), labels[i]
            pull = W.data[links] @ logs[labels[W.indices[links]]]
            new = (pull - (expected - beta[old]) + priors).argmax()
            expected += beta[new] - beta[old]
            labels[i] = new
        if (labels == before).all():
            break
    return labels


def smooth_end(W: sparse.csr_array, C: int, seed: int) -> Matrix:
    """The axes of spectral graph embedding: blocks that seek themselves, in sparse graphs too."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    linked = np.flatnonzero(degrees)
    axes = spectral_axes(W[linked][:, linked], degrees[linked], C, seed)[1]
    Y = np.zeros((len(degrees), axes.shape[1]))
    Y[linked] = axes * np.sqrt(degrees[linked, None])
    return Y


def both_ends(W: sparse.csr_array, C: int, rng: np.random.Generator) -> Matrix:
    """The C eigenvectors of largest magnitude: blocks that seek and that avoid each other.

    Of the adjacency matrix, normalised by degrees to which their mean is added, so that nodes with
    hardly a link do not each claim an axis.
    """
    degrees = np.asarray(W.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.sqrt(degrees + degrees.mean()))
    N = (scale @ W @ scale).tocsr()

    def squared(x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(N @ (N @ x))

    A = linalg.LinearOperator(N.shape, matvec=squared, matmat=squared, dtype=np.float64)
    return leading_of_operator(A, C, rng)[1]


def clusters(Y: Matrix, C: int, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """k-means; on one thread, as the sums of several are rounded in the order they come."""
    k_means = KMeans(C, n_init=3, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        labels: NDArray[np.integer[Any]] = k_means.fit_predict(Y)
    return labels
