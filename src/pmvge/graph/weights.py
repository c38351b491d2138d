"""Checks of the weights of links: heavy tails, and view pairs with nearly all weight."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pmvge.graph.links import Links, Pair

MIN_LINKS = 100  # fewer say little about a tail
MIN_EFFECTIVE = 0.1  # least effective share of the links
LARGE_SHARE = 0.99  # of a view pair in all weight


def effective_share(links: Links) -> float:
    r"""Return the effective number of links over their number, :math:`(\sum w)^2 / (n \sum w^2)`.

    It is 1 if all weights are equal, and m / n if m of n links hold all weight in equal parts.
    """
    if links.equal_weights or not len(links):
        return 1.0
    scaled = links.weights / links.weights.max()  # squares do not overflow
    return float(scaled.sum() ** 2 / (len(scaled) * np.square(scaled).sum()))


def has_heavy_tail(links: Links) -> bool:
    """Return whether so few links hold most of the weight that they dominate the likelihood."""
    return len(links) >= MIN_LINKS and effective_share(links) < MIN_EFFECTIVE


def dominant_pair(links: Mapping[Pair, Links]) -> Pair | None:
    """Return the view pair with nearly all weight of several; None if there is none."""
    totals = {pair: part.total for pair, part in links.items() if len(part)}
    largest = max(totals, key=lambda pair: totals[pair], default=None)
    if largest is None or len(totals) < 2:
        return None
    return largest if totals[largest] > LARGE_SHARE * sum(totals.values()) else None
