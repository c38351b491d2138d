"""Paired comparison of two rankings of the same queries."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t


class Difference(NamedTuple):
    """The mean difference of a metric over queries, and its 95 % interval."""

    mean: float
    low: float
    high: float
    queries: int

    @property
    def clearly_ahead(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low > 0


def paired_difference(values: NDArray[np.float64], others: NDArray[np.float64]) -> Difference:
    r"""Return the mean of values minus others, by query, with a 95 % interval of Student's t.

    .. math:: \bar d \pm t_{n - 1} s_d / \sqrt n.

    With one query the interval is infinite. Both arrays are of the same queries, in their order.
    """
    d = values - others
    n = len(d)
    error = float(d.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    width = float(t.ppf(0.975, n - 1)) * error if 0 < error < math.inf else error
    mean = float(d.mean())
    return Difference(mean, mean - width, mean + width, n)
