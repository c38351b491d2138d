r"""Recall and nDCG of the ranked list of each query.

Ties are broken at random, and metrics are expectations over that order. If G candidates of a query
score higher than one of its links, and E the same (the link included), then

.. math:: P(\text{in the top } k) = \min(1, \max(0, (k - G) / E)), \qquad
          \text{discount} = \frac 1 E \sum_{r = G + 1}^{G + E} \frac{[r \le k]}{\log_2(r + 1)}.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]


def recall_and_ndcg(
    truth: sparse.csr_array, above: Array, equal: Array, k: int
) -> tuple[Array, Array]:
    """Return recall and nDCG of the first k for each query with links."""
    w = truth.data
    degrees = np.diff(truth.indptr)
    degrees = degrees[degrees > 0]
    query = np.repeat(np.arange(len(degrees)), degrees)
    discounts = np.append(1 / np.log2(np.arange(2, k + 2)), 0.0)  # by rank; 0 from rank k
    until = np.concatenate(([0.0], np.cumsum(discounts[:k])))
    start, stop = (np.minimum(rank, k).astype(np.int64) for rank in (above, above + equal))
    gain = w * (until[stop] - until[start]) / equal
    # The ideal order has the heaviest links of a query first.
    heaviest = w[np.lexsort((-w, query))]
    rank = np.arange(len(w)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    ideal = heaviest * discounts[np.minimum(rank, k)]
    recall = np.bincount(query, np.clip((k - above) / equal, 0, 1)) / degrees
    return recall, np.bincount(query, gain) / np.bincount(query, ideal)
