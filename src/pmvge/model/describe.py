"""Describe a fitted model as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.encoders import describe_choice
from pmvge.model.fitted import Fitted


def describe_model(
    fitted: Fitted, settings: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return views, alpha, training summary and the settings that differ from ``defaults``."""
    history = fitted.history
    last, best = (history[-1] if len(history) else None), history.best
    return {
        "n_components": fitted.n_components,
        "views": {
            view: {
                "n": schema.n,
                "features": schema.describe(),
                "encoder": describe_choice(fitted.choices[view]),
            }
            for view, schema in fitted.schemas.items()
        },
        "alpha": {
            f"{a},{b}": {"alpha": entry.value, "relative_error": entry.relative_error}
            for (a, b), entry in fitted.alpha.items()
        },
        "training": {
            "steps": last.step if last else 0,
            "seconds": last.seconds if last else 0.0,
            "best_validation": best.validation if best else None,
            "summary": repr(history),
        },
        "changed_settings": {
            name: str(value) if not isinstance(value, int | float | str) else value
            for name, value in settings.items()
            if name not in ("progress", "checkpoint_dir") and str(value) != str(defaults[name])
        },
    }
