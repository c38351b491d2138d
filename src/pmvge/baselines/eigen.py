"""Leading eigenvectors: of an operator by Lanczos, of a matrix pencil by whitening."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg

from pmvge.errors import DivergedError

Matrix = NDArray[np.float64]
SMALL = 300  # operators of this size are simply written out
ROUNDS = 50  # restarts of Lanczos per wanted vector, before it is given up


def leading_of_operator(
    A: linalg.LinearOperator, k: int, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """The k algebraically largest eigenvalues of a symmetric operator, and their vectors (n, k).

    Largest first; fewer if there are no k of them.
    """
    n = A.shape[0]
    k = min(k, n)
    if n <= SMALL or k >= n - 1:
        values, vectors = np.linalg.eigh(A @ np.eye(n))
    else:
        try:
            values, vectors = linalg.eigsh(
                A, k, which="LA", v0=rng.normal(size=n), maxiter=ROUNDS * n
            )
        except linalg.ArpackNoConvergence as error:
            raise DivergedError(
                f"the {k} leading eigenvectors of a graph of {n} nodes were not found: {error}"
            ) from error
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], turned(vectors[:, order])


def whitening(G: Matrix, tolerance: float = 1e-10) -> Matrix:
    """P (p, r) with P^T G P = I, r the rank of the positive semi-definite G."""
    values, vectors = np.linalg.eigh(G)
    kept = values > tolerance * max(float(values[-1]), 0.0)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def leading_of_pencil(H: Matrix, G: Matrix, k: int) -> tuple[Matrix, Matrix]:
    r"""The k largest :math:`\lambda` of :math:`H \psi = \lambda G \psi`, and :math:`\psi` (p, k).

    With :math:`\psi^\top G \psi = I`, on the range of G: fewer than k if its rank is lower.
    """
    # In units in which G has a diagonal of ones: a column of tiny numbers is no null direction.
    diagonal = np.diagonal(G)
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    P = whitening(G / np.outer(unit, unit)) / unit[:, None]
    values, vectors = np.linalg.eigh(P.T @ H @ P)
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], turned(P @ vectors[:, order])


def turned(vectors: NDArray[Any]) -> NDArray[Any]:
    """Each column with the sign that makes its largest entry positive: one answer of two."""
    if not len(vectors):
        return vectors
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return vectors * np.where(signs == 0, 1.0, signs)
