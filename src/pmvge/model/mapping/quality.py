"""Check a map: are the nearest points of another view an entity's top partners?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pmvge.graph import Pair
from pmvge.model.fitted import Fitted
from pmvge.model.mapping.neighbours import Neighbours, Rows, linked_pairs, partner_count
from pmvge.progress import OnProgress, share_progress

QUERIES = 1_000  # entities of a view that the share is measured for, drawn at random


class TopPartners(NamedTuple):
    """The top partners (n, k) in another view of some entities, by expected weight."""

    rows: Rows
    partners: Rows


def find_top_partners(
    fitted: Fitted, seed: int, on_progress: OnProgress | None = None
) -> dict[Pair, TopPartners]:
    """Return top partners of a sample of entities, for all pairs of different linked views."""
    rng = np.random.default_rng([seed, 4])
    every = {view: np.arange(len(ids)) for view, ids in fitted.ids.items()}
    neighbours = Neighbours(fitted, every)
    pairs = [pair for pair in linked_pairs(fitted) if pair[0] != pair[1]]
    shares = share_progress({pair: len(every[pair[1]]) for pair in pairs}, on_progress)
    found = {}
    for view, other in pairs:
        rows = np.sort(rng.permutation(len(every[view]))[:QUERIES])
        k = partner_count(len(every[other]))
        best = neighbours.nearest(view, rows, other, k, on_progress=shares[view, other])
        found[view, other] = TopPartners(rows, best)
    return found


def partner_share(
    xy: Mapping[str, NDArray[np.float32]], top: Mapping[Pair, TopPartners]
) -> float | None:
    """Return the share of an entity's k nearest points of another view that are top partners.

    k is the number of top partners. The share is a mean over entities, then over pairs of views,
    each in both directions. None if no two views are linked.
    """
    shares = []
    for (view, other), (rows, partners) in top.items():
        n, k = partners.shape
        near = cKDTree(xy[other]).query(xy[view][rows], k=k)[1].reshape(n, k)
        hits = (near[:, :, None] == partners[:, None, :]).any(axis=2)
        shares.append(hits.mean())
    return float(np.mean(shares)) if shares else None


def chance_share(fitted: Fitted, top: Mapping[Pair, TopPartners]) -> float | None:
    """Return the :func:`partner_share` that points at random places have."""
    shares = [found.partners.shape[1] / len(fitted.ids[other]) for (_, other), found in top.items()]
    return float(np.mean(shares)) if shares else None
