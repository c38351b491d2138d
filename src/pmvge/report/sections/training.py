"""How the training went."""

from __future__ import annotations

from pmvge.model import PMvGE
from pmvge.pages import HELD_OUT, TRAINING, Section, duration, figure, key, skipped
from pmvge.report import figures


def training(model: PMvGE) -> Section:
    """Training and validation curves."""
    title, history = "Training", model.history_
    if not len(history):
        return skipped("training", title, "the model has no training record")
    last, best = history[-1], history.best
    lead = (
        "The gain over a model that expects the same weight everywhere; higher is better. "
        f"Training made {last.step:,} steps ({last.epoch:.1f} epochs) in {duration(last.seconds)}"
    )
    names = [("training", TRAINING)]
    if best:
        lead += f"; the weights are those of step {best.step:,}, the best on validation links"
        names.append(("validation", HELD_OUT))
    drawn = figure("curves", figures.training_curves(history), "Training curves")
    return Section(
        "training", title, lead + ".", f'<div class="card wide">{key(names)}{drawn}</div>'
    )
