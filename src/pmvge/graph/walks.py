"""Random walks on a weighted graph, vectorised over walks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Index = NDArray[np.int64]
MAX_PROPOSALS = 16  # rejections before a biased step is drawn from its exact distribution
MAX_OUTCOMES = 1 << 20  # outcomes of exact steps held at once, if they are of several walks


class WalkSampler:
    r"""A sampler of random walks, with steps of first order or of second order (node2vec).

    The probability of a first-order step from node v to x is proportional to :math:`w_{vx}`. That
    of a second-order step also depends on the previous node t, and is proportional to
    :math:`a_{tx} w_{vx}` with

    .. math::
        a_{tx} = 1/p \ \text{if}\ x = t, \quad 1 \ \text{if}\ w_{tx} > 0, \quad 1/q \ \text{else}.

    Memory is proportional to the number of links, independent of the degrees. At a node without
    links a walk stays where it is.

    Parameters
    ----------
    W
        (n, n) weights, non-negative, as a scipy CSR array.
    p, q
        The bias; p = q = 1 gives first-order walks.
    """

    def __init__(self, W: sparse.csr_array, *, p: float = 1.0, q: float = 1.0) -> None:
        W = sparse.csr_array(W, copy=True)
        W.eliminate_zeros()
        W.sum_duplicates()  # also sorts the columns of each row
        self.n = int(W.shape[0])
        self._start = W.indptr.astype(np.int64)
        self._columns = W.indices.astype(np.int64)
        self._P = transition_probabilities(W)
        self._cumulative = np.concatenate([[0.0], np.cumsum(self._P)])
        rows = np.repeat(np.arange(self.n), np.diff(self._start))
        self._keys = rows * np.int64(self.n) + self._columns  # sorted, one per link
        self._factors = np.array([1 / q, 1.0, 1 / p])
        self._biased = p != 1 or q != 1

    def walk(self, starts: Index, length: int, rng: np.random.Generator) -> Index:
        """Draw a walk from every start: (len(starts), length) nodes, starts first."""
        walks = np.empty((len(starts), length), np.int64)
        walks[:, 0] = starts
        for k in range(1, length):
            current = walks[:, k - 1]
            if self._biased and k > 1:
                walks[:, k] = self._biased_step(walks[:, k - 2], current, rng)
            else:
                walks[:, k] = self._step(current, rng)
        return walks

    def _step(self, current: Index, rng: np.random.Generator) -> Index:
        target = current.copy()
        moving = np.flatnonzero(self._start[current + 1] > self._start[current])
        start, stop = self._start[current[moving]], self._start[current[moving] + 1]
        link = draw_between(self._cumulative, start, stop, rng)
        target[moving] = self._columns[link]
        return target

    def _biased_step(self, previous: Index, current: Index, rng: np.random.Generator) -> Index:
        """Draw second-order steps: accept first-order steps with probability a / max a."""
        target = current.copy()
        pending = np.flatnonzero(self._start[current + 1] > self._start[current])
        for _ in range(MAX_PROPOSALS):
            if not len(pending):
                return target
            proposed = self._step(current[pending], rng)
            accepted = rng.random(len(pending)) * self._factors.max() < self._bias(
                previous[pending], proposed
            )
            target[pending[accepted]] = proposed[accepted]
            pending = pending[~accepted]
        # Rejections are independent of the result: the rest may be drawn by any exact method.
        degree = self._start[current[pending] + 1] - self._start[current[pending]]
        groups = np.cumsum(degree) // MAX_OUTCOMES
        for group in np.unique(groups):
            part = pending[groups == group]
            target[part] = self._exact_step(previous[part], current[part], rng)
        return target

    def _exact_step(self, previous: Index, current: Index, rng: np.random.Generator) -> Index:
        """Draw second-order steps from the weights of all their outcomes."""
        start = self._start[current]
        degree = self._start[current + 1] - start
        ends = np.cumsum(degree)
        walk = np.repeat(np.arange(len(current)), degree)
        link = np.arange(ends[-1]) - np.repeat(ends - degree, degree) + start[walk]
        x = self._columns[link]
        weight = self._bias(previous[walk], x) * self._P[link]
        weight /= np.bincount(walk, weight)[walk]  # see transition_probabilities
        cumulative = np.concatenate([[0.0], np.cumsum(weight)])
        return np.asarray(x[draw_between(cumulative, ends - degree, ends, rng)])

    def _bias(self, previous: Index, target: Index) -> NDArray[np.float64]:
        key = previous * np.int64(self.n) + target
        link = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        linked = (self._keys[link] == key).astype(np.int64)
        bias: NDArray[np.float64] = self._factors[np.where(previous == target, 2, linked)]
        return bias


def transition_probabilities(W: sparse.csr_array) -> NDArray[np.float64]:
    """Return the entries of a CSR array divided by their row sums.

    Cumulative sums of these keep the precision of rows of small weight after rows of large weight.
    """
    degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    return np.asarray(W.data / degrees[rows])


def draw_between(
    cumulative: NDArray[np.float64], start: Index, stop: Index, rng: np.random.Generator
) -> Index:
    """Draw a position in [start, stop) for each range, proportional to the weights there.

    ``cumulative[k]`` is the sum of the weights before position k.
    """
    low, high = cumulative[start], cumulative[stop]
    points = low + rng.random(len(start)) * (high - low)
    drawn = np.searchsorted(cumulative, points, side="right") - 1
    # Rounding may give the end of the range.
    return np.asarray(np.clip(drawn, start, stop - 1), dtype=np.int64)


def cooccurrences(walks: Index, window: int) -> tuple[Index, Index]:
    """Return all pairs of nodes within a window of each other in a walk, in both orders."""
    heads, tails = [], []
    for distance in range(1, min(window, walks.shape[1] - 1) + 1):
        left, right = walks[:, :-distance].ravel(), walks[:, distance:].ravel()
        heads += [left, right]
        tails += [right, left]
    if not heads:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(heads), np.concatenate(tails)


def multi_step_weights(W: sparse.csr_array, steps: int, *, least: float = 0.0) -> sparse.csr_array:
    r"""Return symmetric weights (n, n) of the pairs that a walk of at most T steps connects.

    .. math:: S = \frac{1}{2} (R + R^\top), \qquad R = \sum_{k=1}^T P^k, \qquad P = D^{-1} W

    The diagonal and weights below ``least`` are set to 0. With one step, the weights are those of
    W, with the links of each node scaled to a sum of about 1.
    """
    degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    P = sparse.csr_array(sparse.diags_array(inverse) @ W)
    power, total = P, P.copy()
    for _ in range(steps - 1):
        power = power @ P
        total = total + power
    total = sparse.csr_array((total + total.T) / 2)
    total.setdiag(0)
    total.data[total.data < least] = 0
    total.eliminate_zeros()
    return total
