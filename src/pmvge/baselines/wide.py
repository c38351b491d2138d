r"""The eigenproblem of the linear methods for views with many columns, solved by Lanczos.

Lanczos on :math:`H \psi = \lambda G \psi` needs products with H, computed from the rows and the
links, and solutions with G, which is block diagonal with one part per view. A part is factorised as
a dense matrix for narrow views, and as a sparse matrix for wide sparse ones. The part of a one-hot
view is nearly diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from pmvge.baselines.eigen import fix_signs
from pmvge.baselines.flattening import flatten
from pmvge.baselines.moments import VARIANCE_ROUNDING, column_slices, column_squares
from pmvge.errors import DivergedError, GraphError
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]
Solve = Callable[[Matrix], Matrix]
MAX_DENSE = 10_000  # columns of a view whose part of G is stored as a dense matrix
MAX_ENTRIES = 50_000_000  # non-zeros of a view's part of G that is stored as a sparse matrix
MIN_SHRINKAGE = 1e-9  # keeps G invertible
ROUNDING = 1e-11  # relative rounding error of sums of squares


class WidePencil:
    """The matrices G and H of a graph as operators on the columns of all views."""

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
        shrinkage = max(shrinkage, MIN_SHRINKAGE)
        self._keep, self._ridge = 1 - shrinkage, np.empty(self.p)
        self._solvers: dict[str, Solve] = {}
        self._constant: set[str] = set()  # views whose rows are all equal
        for view, rows in X.items():
            c = self.counts[self.rows[view]]
            total = float(column_squares(rows, c).sum())
            spread = total - float(c.sum() * self.means[view] @ self.means[view])
            if spread <= VARIANCE_ROUNDING * total:
                self._constant.add(view)
            # A constant view has a spread of rounding errors only: keep the ridge above them.
            share = max(shrinkage * spread, ROUNDING * total) / rows.shape[1] or 1.0
            self._ridge[self.columns[view]] = share
            self._solvers[view] = self._solver(view, share, where)

    def _mean(self, view: str) -> Matrix:
        c = self.counts[self.rows[view]]
        mean: Matrix = np.asarray(self.X[view].T.astype(np.float64) @ c).ravel()
        return mean / c.sum() if c.sum() > 0 else mean

    def _solver(self, view: str, ridge: float, where: str) -> Solve:
        """Return a function that solves G_d x = b for a view's part G_d of G."""
        X, c, mean = self.X[view], self.counts[self.rows[view]], self.means[view]
        C = sparse.diags_array(c)
        if isinstance(X, np.ndarray):
            if X.shape[1] > MAX_DENSE:
                raise GraphError(
                    f"{where}: view {view!r}: expected at most {MAX_DENSE:,} dense columns, got "
                    f"{X.shape[1]:,}; project the features first"
                )
            centred = X - mean
            return _dense_solver(self._keep * (centred.T @ (C @ centred)), ridge)
        gram = X.T.astype(np.float64) @ (C @ X)
        if X.shape[1] <= MAX_DENSE:
            G_d = gram.toarray() - c.sum() * np.outer(mean, mean)
            return _dense_solver(self._keep * G_d, ridge)
        if gram.nnz > MAX_ENTRIES:
            raise GraphError(
                f"{where}: view {view!r}: expected at most {MAX_ENTRIES:,} pairs of columns that "
                f"occur together, got {gram.nnz:,}; hash or project the features first"
            )
        return _sparse_solver(self._keep * gram, ridge, mean * np.sqrt(self._keep * c.sum()))

    def _forward(self, psi: Matrix) -> Matrix:
        """Return the centred rows times psi: (p,) to (n,)."""
        Y = np.zeros(self.W.shape[0])
        for view in self.X.keys() - self._constant:
            part = psi[self.columns[view]]
            Y[self.rows[view]] = self.X[view] @ part - self.means[view] @ part
        return Y

    def _backward(self, Y: Matrix) -> Matrix:
        """Return the transpose of the centred rows times Y: (n,) to (p,)."""
        psi = np.zeros(self.p)
        for view in self.X.keys() - self._constant:
            part = Y[self.rows[view]]
            psi[self.columns[view]] = self.X[view].T @ part - self.means[view] * part.sum()
        return psi

    def times_H(self, psi: Matrix) -> Matrix:
        """Return H psi."""
        return self._backward(self.W @ self._forward(psi))

    def times_G(self, psi: Matrix) -> Matrix:
        """Return G psi, with shrinkage."""
        spread = self._backward(self.counts * self._forward(psi))
        return np.asarray(self._keep * spread + self._ridge * psi)

    def solve_G(self, psi: Matrix) -> Matrix:
        """Return the solution x of G x = psi."""
        return np.concatenate([self._solvers[v](psi[part]) for v, part in self.columns.items()])

    def leading(self, k: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        """Return the k largest eigenvalues, and psi (p, k) with psi^T G psi = I.

        Raise DivergedError if Lanczos does not converge.
        """

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
                f"eigenvectors: Lanczos did not find the leading {k} of {self.p:,} columns: {error}"
                "; use a smaller n_components or a larger shrinkage"
            ) from error
        order = np.argsort(-values, kind="stable")
        return values[order], fix_signs(psi[:, order])


def _dense_solver(G_d: Matrix, ridge: float) -> Solve:
    """Return a function that solves (G_d + ridge I) x = b."""
    shifted = G_d + ridge * np.eye(len(G_d))
    factor = linalg.cho_factor(shifted, overwrite_a=True, check_finite=False)
    return lambda b: np.asarray(linalg.cho_solve(factor, b, check_finite=False))


def _sparse_solver(gram: sparse.csr_array, ridge: float, mean: Matrix) -> Solve:
    """Return a function that solves (gram + ridge I - mean mean^T) x = b, by Sherman-Morrison."""
    solve_gram = sparse_linalg.splu((gram + ridge * sparse.eye_array(len(mean))).tocsc()).solve
    solved_mean = solve_gram(mean)
    # 0 if centring removes the whole direction of the mean.
    denominator = max(1 - float(mean @ solved_mean), 1e-12)

    def solve(b: Matrix) -> Matrix:
        x = solve_gram(b)
        return np.asarray(x + solved_mean * (mean @ x) / denominator)

    return solve
