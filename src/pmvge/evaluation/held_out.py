"""Held-out links of all view pairs against embeddings: one table of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.background import Background
from pmvge.evaluation.ranking import evaluate_links, overall
from pmvge.links import Links, Pair, canonical

Results = dict[str, dict[str, Any]]  # {"pairs": {"users,films": {...}}, "overall": {...}}


def evaluate_held_out(
    Y: Mapping[str, NDArray[Any]],
    log_alpha: Mapping[Pair, float],
    held_out: Mapping[Pair, Links],
    *,
    known: Mapping[Pair, Links] | None = None,
    weights: Mapping[Pair, float],
    exposure: float | None = None,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    r"""Judge the held-out links of every view pair, and of all together.

    Parameters
    ----------
    Y
        Embeddings of each view.
    log_alpha
        :math:`\log\alpha` of each view pair.
    held_out
        The links to foretell; pairs without any are left out.
    known
        Links that are not judged, those of the training.
    weights
        The total weight that alpha was computed from, by pair.
    exposure
        The held-out weight to expect where the model expects 1. By default the total weight held
        out (known pairs included) over the total weight alpha was computed from: of a Poisson
        number of events, a part drawn at random carries that share of every expected weight.
    k, max_pairs
        See :func:`~pmvge.evaluation.ranking.evaluate_links`.
    """
    pairs: dict[str, dict[str, Any]] = {}
    shares: dict[str, float] = {}
    for (a, b), links in held_out.items():
        if not len(links):
            continue
        seen = None if known is None else known.get((a, b))
        share = links.total / weights[a, b] if exposure is None else exposure
        shares[f"{a},{b}"] = share
        pairs[f"{a},{b}"] = evaluate_links(
            Y[a],
            Y[b],
            links,
            log_alpha=log_alpha[a, b],
            known=seen,
            exposure=share,
            k=k,
            max_pairs=max_pairs,
        )
    return {
        "pairs": {pair: {**one, "exposure": shares[pair]} for pair, one in pairs.items()},
        "overall": overall(pairs),
    }


def evaluate_background(
    Y: Mapping[str, NDArray[Any]],
    log_alpha: Mapping[Pair, float],
    background: Background,
    *,
    weights: Mapping[Pair, float] | None = None,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    """How well the links that were held out of the training are foretold.

    ``weights`` are a model's ``alpha_weight_``; by default all links are taken to have been given
    to ``fit``, as its graph and its validation.
    """
    if weights is None:
        weights = {
            pair: merged(links, background.held_out.get(pair)).total
            for pair, links in background.links.items()
        }
    return evaluate_held_out(
        Y,
        log_alpha,
        background.held_out,
        known=background.links,
        weights=weights,
        k=k,
        max_pairs=max_pairs,
    )


def merged(first: Links, second: Links | None) -> Links:
    """The links of both; a pair of nodes that is in both has the sum of its weights."""
    if second is None or not len(second):
        return first
    keys = np.concatenate(
        [part.rows.astype(np.int64) * part.shape[1] + part.cols for part in (first, second)]
    )
    unique, place = np.unique(keys, return_inverse=True)
    weights = np.bincount(place, np.concatenate([first.weights, second.weights]))
    rows, cols = unique // first.shape[1], unique % first.shape[1]
    return canonical(rows, cols, weights, first.shape, first.within)
