r"""The same eigenproblem for views of many columns: operators in place of matrices.

:math:`H \psi = \lambda G \psi` needs products with H, which go through the nodes and links, and
solutions with G, whose blocks are factorised view by view: dense for narrow views, sparse for wide
sparse ones, such as one-hot vectors, where the block is all but diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from pmvge.baselines.eigen import turned
from pmvge.baselines.flattening import flatten
from pmvge.errors import DivergedError, GraphError
from pmvge.features import Features
from pmvge.graph import MultiViewGraph

Matrix = NDArray[np.float64]
Solve = Callable[[Matrix], Matrix]

DENSE = 10_000  # columns of a view whose block is held as a dense matrix
ENTRIES = 50_000_000  # of a sparse block
LEAST = 1e-9  # shrinkage: a block that is not invertible has no solutions


class WidePencil:
    """G and H of a graph as operators on the columns of all views."""

    def __init__(
        self,
        graph: MultiViewGraph,
        X: Mapping[str, Features],
        *,
        by_weight: bool,
        center: bool,
        shrinkage: float,
        where: str,
    ) -> None:
        flat = flatten(graph)
        self.X, self.W, self.rows = X, flat.W, flat.parts
        self.counts = flat.degrees if by_weight else np.ones(flat.W.shape[0])
        self.columns: dict[str, slice] = {}
        self.p = 0
        for view, rows in X.items():
            self.columns[view] = slice(self.p, self.p + rows.shape[1])
            self.p += rows.shape[1]
        self.means = {view: self._mean(view) * center for view in X}
        shrinkage = max(shrinkage, LEAST)
        self._keep, self._ridge, self._solvers = 1 - shrinkage, np.empty(self.p), {}
        for view in X:
            block, mass = self._block(view, where)
            share = shrinkage * max(self._trace(view), np.finfo(float).tiny) / X[view].shape[1]
            self._ridge[self.columns[view]] = share
            mean = self.means[view] * np.sqrt(self._keep * mass)
            self._solvers[view] = _solver(self._keep * block, share, mean)

    def _mean(self, view: str) -> Matrix:
        c = self.counts[self.rows[view]]
        mean: Matrix = np.asarray(self.X[view].T.astype(np.float64) @ c).ravel()
        return mean / c.sum() if c.sum() > 0 else mean

    def _block(self, view: str, where: str) -> tuple[Matrix | sparse.csc_array, float]:
        """X^T C X before centring, and the sum of C."""
        X, c = self.X[view], self.counts[self.rows[view]]
        if isinstance(X, np.ndarray) and X.shape[1] > DENSE:
            raise GraphError(
                f"{where}: view {view!r} has {X.shape[1]:,} dense columns; at most {DENSE:,} are "
                "taken. Project them first"
            )
        C = sparse.diags_array(c)
        gram = X.T.astype(np.float64) @ (C @ X)
        if not sparse.issparse(gram):
            return np.asarray(gram), float(c.sum())
        if X.shape[1] <= DENSE:
            return gram.toarray(), float(c.sum())
        if gram.nnz > ENTRIES:
            raise GraphError(
                f"{where}: the {X.shape[1]:,} columns of view {view!r} occur together in "
                f"{gram.nnz:,} pairs; at most {ENTRIES:,} are taken. Hash or project them first"
            )
        return gram.tocsc(), float(c.sum())

    def _trace(self, view: str) -> float:
        """Of the centred block."""
        X, c = self.X[view], self.counts[self.rows[view]]
        squares = X.astype(np.float64) ** 2 if isinstance(X, np.ndarray) else X.multiply(X)
        total = float(np.sum(squares.T @ c))
        return total - float(c.sum() * self.means[view] @ self.means[view])

    def _forward(self, psi: Matrix) -> Matrix:
        """Centred rows times psi: (p, k) to (n, k)."""
        return np.concatenate(
            [
                X @ psi[self.columns[v]] - self.means[v] @ psi[self.columns[v]]
                for v, X in self.X.items()
            ]
        )

    def _backward(self, Y: Matrix) -> Matrix:
        """Their transpose: (n, k) to (p, k)."""
        return np.concatenate(
            [
                X.T @ Y[self.rows[v]]
                - np.multiply.outer(self.means[v], Y[self.rows[v]].sum(axis=0))
                for v, X in self.X.items()
            ]
        )

    def times_H(self, psi: Matrix) -> Matrix:
        """H psi."""
        return self._backward(self.W @ self._forward(psi))

    def times_G(self, psi: Matrix) -> Matrix:
        """G psi, shrinkage included."""
        weighted = (self.counts * self._forward(psi).T).T
        return np.asarray(self._keep * self._backward(weighted) + (self._ridge * psi.T).T)

    def solve_G(self, psi: Matrix) -> Matrix:
        """The solution of G x = psi."""
        return np.concatenate([self._solvers[v](psi[part]) for v, part in self.columns.items()])

    def leading(self, k: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        """The k largest eigenvalues, and psi (p, k) with psi^T G psi = I."""

        def operator(times: Solve) -> sparse_linalg.LinearOperator:
            return sparse_linalg.LinearOperator((self.p, self.p), matvec=times, dtype=np.float64)

        k = min(k, self.p - 2)
        try:
            values, psi = sparse_linalg.eigsh(
                operator(self.times_H),
                k,
                M=operator(self.times_G),
                Minv=operator(self.solve_G),
                which="LA",
                v0=self.solve_G(rng.normal(size=self.p)),
            )
        except sparse_linalg.ArpackNoConvergence as error:
            raise DivergedError(
                f"the {k} leading axes of {self.p:,} columns were not found: {error}"
            ) from error
        order = np.argsort(-values, kind="stable")
        return values[order], turned(psi[:, order])


def _solver(block: Matrix | sparse.csc_array, ridge: float, mean: Matrix) -> Solve:
    """Solutions with block + ridge I - mean mean^T, the last term by Sherman and Morrison."""
    if isinstance(block, np.ndarray):
        shifted = block + ridge * np.eye(len(block)) - np.outer(mean, mean)
        factor = linalg.cho_factor(shifted, overwrite_a=True, check_finite=False)
        return lambda b: np.asarray(linalg.cho_solve(factor, b, check_finite=False))
    plain = sparse_linalg.splu((block + ridge * sparse.eye_array(len(mean))).tocsc()).solve
    of_mean = plain(mean)
    left = max(1 - float(mean @ of_mean), 1e-12)  # 0: all of the mean's direction is centred away

    def solve(b: Matrix) -> Matrix:
        x = plain(b)
        return np.asarray(x + of_mean * (mean @ x) / left)

    return solve
