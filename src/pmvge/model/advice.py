"""What to change if a model predicts no better than a popularity list."""

from __future__ import annotations

from pmvge.graph import dominant_pair, has_heavy_tail
from pmvge.model.fitted import Fitted


def suggest_changes(fitted: Fitted) -> str:
    """Return a sentence with settings to try, those that apply to the model first."""
    found = []
    if fitted.links is not None:
        heavy = [pair for pair, part in fitted.links.training.items() if has_heavy_tail(part)]
        found += [
            f"transform = 'log1p' for the weights of {a},{b}, of which few hold most"
            for a, b in heavy
        ]
        largest = dominant_pair(fitted.links.training)
        if largest is not None and fitted.settings["pair_weights"] is None:
            found.append(f"pair_weights = 'balanced': {','.join(largest)} has nearly all weight")
    if "vector" not in fitted.effects.values() and fitted.similarity.takes_biases:
        found.append("effects = 'vector', which also learns from each entity's own links")
    if fitted.history.best and fitted.history.stale < (fitted.settings["patience"] or 1):
        found.append("more steps (max_epochs): the validation was still rising")
    found += ["pmvge tune", "features that say more about links", "more links"]
    return f"try {'; '.join(found)} (docs/settings.md, Symptoms)"
