"""Check whether an update made a model clearly worse, on the links that both have held out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pmvge.graph import Links, Pair, find_links
from pmvge.model.estimator import PMvGE
from pmvge.model.evaluating import evaluate
from pmvge.model.fitted import Fitted
from pmvge.model.training_links import TrainingLinks

MIN_FALL = 0.1  # of the validation gain; updates change it by less
MIN_DROP = 0.02  # of the AUC; an update and a new fit differ by less
STANDARD_ERRORS = 2  # of the AUC: a smaller drop can be chance
MAX_PAIRS = 10**7  # entity pairs that scores are computed from; more are sampled


def find_regressions(before: PMvGE, after: PMvGE) -> list[str]:
    """Return a sentence for each way in which an updated model is clearly worse than before.

    It is clearly worse if its validation gain is below 0, that is, worse than equal similarities
    of all pairs, and fell by more than 0.1; or if its AUC of the held-out links that both models
    have is lower in a view pair, by more than 0.02 and by more than two standard errors.
    """
    old, new = before._check_fitted(), after._check_fitted()
    found = []
    former, gain = _gain(old), _gain(new)
    if former is not None and gain is not None and gain < min(0, former - MIN_FALL):
        found.append(
            f"the validation gain fell from {former:.4f} to {gain:.4f}, and below 0 a model is "
            "worse than equal similarities of all pairs"
        )
    scores = [_scores(fitted) for fitted in _with_shared_links(old, new)]
    for pair, (auc, links) in scores[0].items():
        now = scores[1].get(pair, (math.nan, 0))[0]
        error = math.sqrt(auc * (1 - auc) / links)
        if auc - now > max(MIN_DROP, STANDARD_ERRORS * error):
            found.append(
                f"links {pair}: the AUC of the same {links:,} held-out links fell from {auc:.3f} "
                f"to {now:.3f}"
            )
    return found


def _gain(fitted: Fitted) -> float | None:
    kept = fitted.history.kept
    return None if kept is None else kept.validation


def _with_shared_links(old: Fitted, new: Fitted) -> tuple[Fitted, Fitted]:
    """Return two models with only those held-out links that both of them have."""
    known, links = old.require_links("update"), new.require_links("update")
    held: tuple[dict[Pair, Links], dict[Pair, Links]] = ({}, {})
    for (a, b), part in links.held_out.items():
        former = known.held_out.get((a, b))
        if former is None or not len(former) or not len(part):
            continue
        i = old.positions_of(a, new.ids[a])[part.rows]
        j = old.positions_of(b, new.ids[b])[part.cols]
        if part.within:
            i, j = np.minimum(i, j), np.maximum(i, j)
        place = find_links(former, i, j)
        shared = np.zeros(len(former), bool)
        shared[place[place >= 0]] = True
        held[0][a, b], held[1][a, b] = former.select(shared), part.select(place >= 0)
    return (
        replace(old, links=TrainingLinks(known.training, held[0])),
        replace(new, links=TrainingLinks(links.training, held[1])),
    )


def _scores(fitted: Fitted) -> dict[str, tuple[float, int]]:
    """Return the AUC of each view pair, and the number of links that it is computed from."""
    results = evaluate(fitted, None, include_known=False, exposure=None, k=10, max_pairs=MAX_PAIRS)
    return {pair: (row["roc_auc"], row["links"]) for pair, row in results["pairs"].items()}
