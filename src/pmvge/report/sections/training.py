"""The section with the training curves."""

from __future__ import annotations

from pmvge.model import PMvGE
from pmvge.pages import (
    HELD_OUT,
    TRAINING,
    Section,
    figure,
    format_duration,
    legend,
    skipped_section,
)
from pmvge.report import figures


def training(model: PMvGE) -> Section:
    """Return the section with the training and validation curves."""
    title, history = "Training", model.history_
    if not len(history):
        return skipped_section("training", title, "the model has no training history")
    last, kept = history[-1], history.kept
    lead = (
        "Gain in log-likelihood over a model with the same expected weight for all pairs; higher "
        f"is better. Training took {last.step:,} steps ({last.epoch:.1f} epochs) and "
        f"{format_duration(last.seconds)}."
    )
    names = [("training", TRAINING)]
    if kept:
        why = (
            "after the decay of the learning rate"
            if kept.phase == "decay"
            else "the best one on the validation links"
        )
        lead += f" The model is that of step {kept.step:,}, {why}."
        names.append(("validation", HELD_OUT))
    drawn = figure("curves", figures.training_curves(history), "Training curves")
    return Section("training", title, lead, f'<div class="card wide">{legend(names)}{drawn}</div>')
