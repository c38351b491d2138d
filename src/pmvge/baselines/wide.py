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
from pmvge.baselines.moments import CONSTANT, column_slices, squares
from pmvge.errors import DivergedError, GraphError
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]
Solve = Callable[[Matrix], Matrix]
DENSE = 10_000  # columns of a view whose block is held as a dense matrix
ENTRIES = 50_000_000  # of a sparse block
LEAST = 1e-9  # shrinkage: a block that is not invertible has no solutions
ROUNDING = 1e-11  # of sums of squares, as a share of them


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
        nodes = flatten(graph)
        self.X, self.W, self.rows = X, nodes.W, nodes.parts
        self.counts = nodes.degrees if by_weight else np.ones(graph.n_nodes)
        self.columns = column_slices(X)
        self.p = sum(rows.shape[1] for rows in X.values())
        self.means = {view: self._mean(view) * center for view in X}
        shrinkage = max(shrinkage, LEAST)
        self._keep, self._ridge = 1 - shrinkage, np.empty(self.p)
        self._solvers: dict[str, Solve] = {}
        self._constant: set[str] = set()  # views that say nothing
        for view, rows in X.items():
            c = self.counts[self.rows[view]]
            total = float(squares(rows, c).sum())
            spread = total - float(c.sum() * self.means[view] @ self.means[view])
            if spread <= CONSTANT * total:
                self._constant.add(view)
            # No less than rounding, which a constant view has nothing but.
            share = max(shrinkage * spread, ROUNDING * total) / rows.shape[1] or 1.0
            self._ridge[self.columns[view]] = share
            self._solvers[view] = self._solver(view, share, where)

    def _mean(self, view: str) -> Matrix:
        c = self.counts[self.rows[view]]
        mean: Matrix = np.asarray(self.X[view].T.astype(np.float64) @ c).ravel()
        return mean / c.sum() if c.sum() > 0 else mean

    def _solver(self, view: str, ridge: float, where: str) -> Solve:
        """Solutions with a view's block of G."""
        X, c, mean = self.X[view], self.counts[self.rows[view]], self.means[view]
        C = sparse.diags_array(c)
        if isinstance(X, np.ndarray):
            if X.shape[1] > DENSE:
                raise GraphError(
                    f"{where}: view {view!r} has {X.shape[1]:,} dense columns; at most {DENSE:,} "
                    "are taken. Project them first"
                )
            centred = X - mean
            return _dense_solver(self._keep * (centred.T @ (C @ centred)), ridge)
        gram = X.T.astype(np.float64) @ (C @ X)
        if X.shape[1] <= DENSE:
            block = gram.toarray() - c.sum() * np.outer(mean, mean)
            return _dense_solver(self._keep * block, ridge)
        if gram.nnz > ENTRIES:
            raise GraphError(
                f"{where}: the {X.shape[1]:,} columns of view {view!r} occur together in "
                f"{gram.nnz:,} pairs; at most {ENTRIES:,} are taken. Hash or project them first"
            )
        return _sparse_solver(self._keep * gram, ridge, mean * np.sqrt(self._keep * c.sum()))

    def _forward(self, psi: Matrix) -> Matrix:
        """Centred rows times psi: (p,) to (n,)."""
        Y = np.zeros(self.W.shape[0])
        for view in self.X.keys() - self._constant:
            part = psi[self.columns[view]]
            Y[self.rows[view]] = self.X[view] @ part - self.means[view] @ part
        return Y

    def _backward(self, Y: Matrix) -> Matrix:
        """Their transpose: (n,) to (p,)."""
        psi = np.zeros(self.p)
        for view in self.X.keys() - self._constant:
            part = Y[self.rows[view]]
            psi[self.columns[view]] = self.X[view].T @ part - self.means[view] * part.sum()
        return psi

    def times_H(self, psi: Matrix) -> Matrix:
        """H psi."""
        return self._backward(self.W @ self._forward(psi))

    def times_G(self, psi: Matrix) -> Matrix:
        """G psi, shrinkage included."""
        spread = self._backward(self.counts * self._forward(psi))
        return np.asarray(self._keep * spread + self._ridge * psi)

    def solve_G(self, psi: Matrix) -> Matrix:
        """The solution of G x = psi."""
        return np.concatenate([self._solvers[v](psi[part]) for v, part in self.columns.items()])

    def leading(self, k: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        """The k largest eigenvalues, and psi (p, k) with psi^T G psi = I."""

        def operator(times: Solve) -> sparse_linalg.LinearOperator:
            return sparse_linalg.LinearOperator((self.p, self.p), matvec=times, dtype=np.float64)

        k, start = min(k, self.p - 2), self.solve_G(rng.normal(size=self.p))
        if not self.times_H(start).any():
            return np.zeros(0), np.zeros((self.p, 0))
        try:
            values, psi = sparse_linalg.eigsh(
                operator(self.times_H),
                k,
                M=operator(self.times_G),
                Minv=operator(self.solve_G),
                which="LA",
                v0=start,
            )
        except sparse_linalg.ArpackNoConvergence as error:
            raise DivergedError(
                f"the {k} leading axes of {self.p:,} columns were not found: {error}"
            ) from error
        order = np.argsort(-values, kind="stable")
        return values[order], turned(psi[:, order])


def _dense_solver(block: Matrix, ridge: float) -> Solve:
    """Solutions with block + ridge I."""
    shifted = block + ridge * np.eye(len(block))
    factor = linalg.cho_factor(shifted, overwrite_a=True, check_finite=False)
    return lambda b: np.asarray(linalg.cho_solve(factor, b, check_finite=False))


def _sparse_solver(block: sparse.csr_array, ridge: float, mean: Matrix) -> Solve:
    """Solutions with block + ridge I - mean mean^T, the last term by Sherman and Morrison."""
    plain = sparse_linalg.splu((block + ridge * sparse.eye_array(len(mean))).tocsc()).solve
    of_mean = plain(mean)
    left = max(1 - float(mean @ of_mean), 1e-12)  # 0: all of the mean's direction is centred away

    def solve(b: Matrix) -> Matrix:
        x = plain(b)
        return np.asarray(x + of_mean * (mean @ x) / left)

    return solve
