"""Leading eigenvectors of a symmetric operator, a matrix pencil and a covariance matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg

from pmvge.errors import DivergedError
from pmvge.graph import Features

Matrix = NDArray[np.float64]
SMALL = 300  # operators up to this size are converted to dense matrices
MAX_ROUNDS = 50  # Lanczos iterations, per row of the operator


def largest_eigenpairs(
    A: linalg.LinearOperator, k: int, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Return the k largest eigenvalues of a symmetric operator, and their vectors (n, k).

    The eigenvalues are sorted in descending order; there are min(k, n) of them. Raise DivergedError
    if Lanczos does not converge.
    """
    n = A.shape[0]
    k = min(k, n)
    if n <= SMALL or k >= n - 1:
        values, vectors = np.linalg.eigh(A @ np.eye(n))
    else:
        try:
            values, vectors = linalg.eigsh(
                A, k, which="LA", v0=rng.normal(size=n), maxiter=MAX_ROUNDS * n
            )
        except linalg.ArpackNoConvergence as error:
            raise DivergedError(
                f"eigenvectors: Lanczos did not find the leading {k} of {n} rows: {error}; use a "
                "smaller n_components"
            ) from error
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], fix_signs(vectors[:, order])


def whitening(G: Matrix, tolerance: float = 1e-10) -> Matrix:
    """Return P (p, r) with P^T G P = I, where r is the rank of the positive semi-definite G."""
    values, vectors = np.linalg.eigh(G)
    kept = values > tolerance * max(float(values[-1]), 0.0)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def generalized_eigenpairs(H: Matrix, G: Matrix, k: int) -> tuple[Matrix, Matrix]:
    r"""Return the k largest solutions :math:`\lambda` of :math:`H \psi = \lambda G \psi`, and psi.

    :math:`\psi` (p, k) satisfies :math:`\psi^\top G \psi = I`. There are fewer than k solutions if
    the rank of G is lower.
    """
    # Scale G to a unit diagonal first, so that columns of small numbers count in its rank.
    diagonal = np.diagonal(G)
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    P = whitening(G / np.outer(unit, unit)) / unit[:, None]
    values, vectors = np.linalg.eigh(P.T @ H @ P)
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], fix_signs(P @ vectors[:, order])


def principal_scores(X: Features, K: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the scores on the K principal components, (n, K); fewer if X has a lower rank.

    For Euclidean distances they are the solution of classical scaling.
    """
    mean = np.asarray(X.mean(axis=0)).ravel()

    def times_gram(y: NDArray[Any]) -> NDArray[Any]:
        """Return (X - 1 mean) (X - 1 mean)^T y, without centring a sparse X."""
        y = y.reshape(X.shape[0], -1)
        inner = X.T @ y - np.outer(mean, y.sum(axis=0))
        return np.asarray(X @ inner - mean @ inner)

    n = X.shape[0]
    gram = linalg.LinearOperator((n, n), matvec=times_gram, matmat=times_gram, dtype=np.float64)
    values, vectors = largest_eigenpairs(gram, K, rng)
    kept = values > 1e-12 * values[0]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def fix_signs(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return the columns with signs that make each one's largest entry positive."""
    if not len(vectors):
        return vectors
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return vectors * np.where(signs == 0, 1.0, signs)
