"""The popularity list: partners ranked by their total weight, without a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.evaluation.held_out import HeldOutShare, Results, overall
from pmvge.evaluation.ranking import LinkMetrics, evaluate_links
from pmvge.graph import Links, Pair, pair_key
from pmvge.likelihoods import POISSON, Family

POPULARITY = (  # what the comparison with it means
    "Popularity ranks all partners by their total weight in training, in the same order for every "
    "entity; a model that is not clearly ahead of it has learned little more than who is popular."
)


FEATURES_ONLY = (
    "Features only leaves out the effects of entities that have features, as if they were new."
)


class Popularity(NamedTuple):
    """The total weights of entities in the training links of a view pair."""

    left: NDArray[np.float64]  # (n,) of the rows
    right: NDArray[np.float64]  # (m,) of the columns
    total: float  # of all links
    within: bool  # whether both sides are one view

    @classmethod
    def of(cls, links: Links) -> Popularity:
        """Return the popularity of the entities of links."""
        return cls(*links.degrees(), links.total, links.within)

    def vectors(self) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
        r"""Return vectors of both sides and log alpha of the popularity list.

        With the weighted degrees d of the training links and their total weight W,

        .. math:: \mu_{ij} = d_i d_j / W = \alpha \exp \langle (\log d_i, 1), (1, \log d_j) \rangle,
                  \qquad \alpha = 1 / W,

        and 1 / 2W within a view: the expected weights of links that are placed at random between
        entities of these degrees. Entities without links get half of the smallest degree.
        """
        left, right = _log_degrees(self.left), _log_degrees(self.right)
        one, other = np.ones(len(left), np.float32), np.ones(len(right), np.float32)
        log_alpha = -math.log(self.total * (2 if self.within else 1))
        return np.stack([left, one], 1), np.stack([other, right], 1), log_alpha


def _log_degrees(degrees: NDArray[np.float64]) -> NDArray[np.float32]:
    smallest = degrees[degrees > 0].min() if (degrees > 0).any() else 2.0
    return np.log(np.where(degrees > 0, degrees, smallest / 2)).astype(np.float32)


def evaluate_popularity(
    held_out: Mapping[Pair, Links],
    popularity: Mapping[Pair, Popularity],
    *,
    known: Mapping[Pair, Links] | None = None,
    exposure: float | None = None,
    shares: Mapping[Pair, HeldOutShare] | None = None,
    family: Family = POISSON,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    """Return the metrics of the popularity list of the training links, as for a model.

    The arguments and results are those of :func:`~pmvge.evaluation.evaluate_held_out`. View pairs
    without held-out links or without training links are skipped. Raise InputError as
    :func:`~pmvge.evaluation.evaluate_links` does.
    """
    pairs: dict[str, LinkMetrics] = {}
    for (a, b), links in held_out.items():
        popular = popularity.get((a, b))
        if not len(links) or popular is None or popular.total <= 0:
            continue
        Y, Y_other, log_alpha = popular.vectors()
        pairs[pair_key((a, b))] = evaluate_links(
            Y,
            Y_other,
            links,
            log_alpha=log_alpha,
            known=None if known is None else known.get((a, b)),
            exposure=links.total / popular.total if exposure is None else exposure,
            family=family.for_pair(a, b),
            pair=(a, b),
            k=k,
            max_pairs=max_pairs,
            **({} if shares is None else shares[a, b].arguments(log_alpha)),
        )
    return {"pairs": dict(pairs), "overall": overall(pairs)}
