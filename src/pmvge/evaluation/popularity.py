"""The popularity list: partners ranked by their total weight, without a model."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pmvge.evaluation.held_out import Results, overall
from pmvge.evaluation.ranking import evaluate_links
from pmvge.graph import Links, Pair
from pmvge.likelihoods import POISSON, Family

POPULARITY = (  # what the comparison with it means
    "Popularity ranks all partners by their total weight in training, in the same order for every "
    "entity; a model that is not clearly ahead of it has learned little more than who is popular."
)


def evaluate_popularity(
    held_out: Mapping[Pair, Links],
    training: Mapping[Pair, Links],
    *,
    include_known: bool = False,
    exposure: float | None = None,
    family: Family = POISSON,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    """Return the metrics of the popularity list of the training links, as for a model.

    The results have the form of :func:`~pmvge.evaluation.evaluate_held_out`. View pairs without
    held-out links or without training links are skipped. ``include_known`` evaluates the pairs of
    training links, too. Raise InputError as :func:`~pmvge.evaluation.evaluate_links` does.
    """
    pairs = {}
    for (a, b), links in held_out.items():
        seen = training.get((a, b))
        if not len(links) or seen is None or not len(seen):
            continue
        Y, Y_other, log_alpha = popularity_vectors(seen)
        pairs[f"{a},{b}"] = evaluate_links(
            Y,
            Y_other,
            links,
            log_alpha=log_alpha,
            known=None if include_known else seen,
            exposure=links.total / seen.total if exposure is None else exposure,
            family=family,
            pair=(a, b),
            k=k,
            max_pairs=max_pairs,
        )
    return {"pairs": dict(pairs), "overall": overall(pairs)}


def popularity_vectors(links: Links) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    r"""Return vectors of both sides and log alpha of the popularity list of a view pair.

    With the weighted degrees d of the training links and their total weight W,

    .. math:: \mu_{ij} = d_i d_j / W = \alpha \exp \langle (\log d_i, 1), (1, \log d_j) \rangle,
              \qquad \alpha = 1 / W,

    and 1 / 2W within a view: the expected weights of links that are placed at random between
    entities of these degrees. Entities without links get half of the smallest degree.
    """
    left, right = (_log_degrees(degrees) for degrees in links.degrees())
    ones_left, ones_right = np.ones(len(left), np.float32), np.ones(len(right), np.float32)
    total = links.total * (2 if links.within else 1)
    return np.stack([left, ones_left], 1), np.stack([ones_right, right], 1), -math.log(total)


def _log_degrees(degrees: NDArray[np.float64]) -> NDArray[np.float32]:
    smallest = degrees[degrees > 0].min()
    return np.log(np.where(degrees > 0, degrees, smallest / 2)).astype(np.float32)
