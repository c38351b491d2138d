"""Advice on the likelihood family, from the weights of a graph."""

from __future__ import annotations

import numpy as np

from pmvge.graph import Links, MultiViewGraph
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.poisson import Poisson

DISPERSION = 10.0  # variance over mean, above which other families than Poisson are worth a try
DENSE = 0.25  # share of linked pairs, above which Poisson weights are no good model of 0 and 1


def advise_families(graph: MultiViewGraph, family: Family) -> list[str]:
    """Return a sentence for each view pair whose weights do not look like those of its family.

    Only view pairs with the Poisson family, the default, get advice. The variance is that of the
    weights of all entity pairs, 0 without a link.
    """
    notes = []
    for (a, b), links in graph.links.items():
        if isinstance(family.for_pair(a, b), Poisson) and (text := _advice(links)):
            notes.append(f"links {a},{b}: {text}")
    return notes


def _advice(links: Links) -> str | None:
    if not len(links):
        return None
    w, n = links.weights, max(1, links.n_terms)
    if links.equal_weights and w[0] == 1:
        if len(links) > DENSE * n:
            share = len(links) / n
            return (
                f"all weights are 1 and {share:.0%} of the pairs are linked: try pmvge fit "
                "--family bernoulli"
            )
        return None
    mean = links.total / n
    ratio = float(np.square(w).sum()) / n / mean - mean
    if ratio < DISPERSION:
        return None
    whole = bool((w == np.floor(w)).all())
    kind, name = ("counts", "negative_binomial") if whole else ("weights", "beta")
    return f"{kind} with variance {ratio:,.0f} times the mean: try pmvge fit --family {name}"
