"""Held-out links of all view pairs against embeddings: one table of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from pmvge.evaluation.ranking import evaluate_links, overall
from pmvge.graph import Links, Pair

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
