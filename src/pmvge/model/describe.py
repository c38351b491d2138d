"""Describe a fitted model as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pmvge.encoders import EncoderSpec, describe_choice
from pmvge.graph import Pair, pair_key
from pmvge.likelihoods import NegativeBinomial, family_name
from pmvge.model.fitted import Fitted
from pmvge.model.pair_weights import key_text
from pmvge.similarities import similarity_name

RATES = ("dropout", "input_dropout")  # None: fit chooses them by view
HIDDEN = ("progress", "checkpoint_dir")  # settings that do not change a model


def describe_model(fitted: Fitted, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return views, links, alpha, training, settings and columns of a model, ready for JSON.

    ``changed_settings`` are those of ``settings`` that differ from ``defaults``, and the rates of
    dropout of each view, ``{view: rate}``, if they were not set and are above 0.
    """
    settings = {name: plain(value) for name, value in fitted.settings.items()}
    resolved = settings | _chosen_rates(fitted)
    return {
        "n_components": fitted.n_components,
        "similarity": similarity_name(fitted.similarity),
        "family": family_name(fitted.family),
        "views": {
            view: {
                "n": schema.n,
                "features": schema.describe(),
                "encoder": describe_choice(fitted.choices[view]),
                "given_ids": view in fitted.given_ids,
                "labels": list(fitted.labels.get(view, {})),
                "columns": list(fitted.columns.get(view, {})),
                "name": fitted.names.get(view),
                "effects": _effects(fitted, view),
            }
            for view, schema in fitted.schemas.items()
        },
        "alpha": {
            pair_key(pair): {
                "pair": list(pair),
                "alpha": entry.value,
                "relative_error": entry.relative_error,
                "weight": entry.weight,
                **_dispersion(fitted, pair),
            }
            for pair, entry in fitted.alpha.items()
        },
        "calibrated": _calibrated(fitted),
        "links": _links(fitted),
        "training": _training(fitted),
        "settings": settings,
        "changed_settings": {
            name: value
            for name, value in resolved.items()
            if name not in HIDDEN and value != plain(defaults.get(name))
        },
        "tables": _columns(fitted.tables),
    }


def setting_text(name: str, value: Any) -> str:
    """Return a value of ``changed_settings`` as text; views with the same rate are listed together.

    >>> setting_text("dropout", {"films": 0.5, "users": 0.5, "shops": 0.1})
    '0.5 (films, users), 0.1 (shops)'
    """
    if name not in RATES or not isinstance(value, Mapping):
        return str(value)
    views: dict[float, list[str]] = {}
    for view, rate in value.items():
        views.setdefault(rate, []).append(view)
    return ", ".join(f"{rate} ({', '.join(names)})" for rate, names in views.items())


def _chosen_rates(fitted: Fitted) -> dict[str, dict[str, float]]:
    """Return the rates of dropout that fit has chosen, by view; only those above 0."""
    specs = {
        view: choice
        for view, choice in fitted.choices.items()
        if isinstance(choice, EncoderSpec) and choice.shared_with is None
    }
    found = {}
    for name in RATES:
        rates = {view: float(rate) for view, spec in specs.items() if (rate := getattr(spec, name))}
        if rates and fitted.settings.get(name) is None:
            found[name] = rates
    return found


def _dispersion(fitted: Fitted, pair: Pair) -> dict[str, float]:
    """Return the dispersion of a view pair's weights, if its family has one."""
    family = fitted.family_of(*pair)
    return (
        {"dispersion": family.dispersions()[pair]} if isinstance(family, NegativeBinomial) else {}
    )


def _effects(fitted: Fitted, view: str) -> dict[str, Any]:
    """Return the kind of effects of a view, their priors, and how much features explain."""
    effects = fitted.network.effects_of(view)
    found: dict[str, Any] = {"kind": fitted.effects[view]}
    if effects is None:
        return found
    sigma, tau = effects.prior.tolist()
    vector = {"sigma": sigma} if effects.n_vector else {}
    return found | vector | {"tau": tau, "feature_shares": dict(fitted.shares.get(view, {}))}


def _calibrated(fitted: Fitted) -> dict[str, dict[str, Any]]:
    """Return the factors of new entities, by view pair and kind; None where there is none."""
    found: dict[str, dict[str, Any]] = {}
    for a, b in fitted.alpha:
        row = found[pair_key((a, b))] = {}
        for name, kind in fitted.kinds_of(a, b).items():
            factor = fitted.factor_of(a, b, kind)
            row[name] = factor and {
                "factor": factor.value,
                "relative_error": factor.relative_error,
                "weight": factor.weight,
                "bins": {column: list(values) for column, values in factor.bins.items()},
            }
    return found


def _links(fitted: Fitted) -> dict[str, dict[str, Any]]:
    """Return the numbers and weights of training and held-out links, by view pair."""
    if fitted.links is None:
        return {}
    held_out = fitted.links.held_out
    return {
        pair_key(pair): {
            "links": len(links),
            "weight": links.total,
            "held_out": len(held_out.get(pair, ())),
            "held_out_weight": held_out[pair].total if pair in held_out else 0.0,
        }
        for pair, links in fitted.links.training.items()
    }


def _training(fitted: Fitted) -> dict[str, Any]:
    history = fitted.history
    last, kept = (history[-1] if len(history) else None), history.kept
    return {
        "steps": last.step if last else 0,
        "epochs": last.epoch if last else 0.0,
        "seconds": last.seconds if last else 0.0,
        "kept_step": kept.step if kept else None,
        "validation": kept.validation if kept else None,
        "seed": fitted.seed,
        "summary": repr(history),
    }


def _columns(tables: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """Return how the columns of each view's table are read: {view: {column: kind}}."""
    found = {}
    for view, entry in (tables or {"views": {}})["views"].items():
        blocks = entry["recipe"]["blocks"] if entry["recipe"] else []
        found[view] = {column: block["block"] for block in blocks for column in block["columns"]}
    return found


def plain(value: Any) -> Any:
    """Return a setting as JSON values. Modules and generators become the names of their types."""
    if isinstance(value, Mapping):
        return {key_text(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, EncoderSpec):
        return {key: plain(entry) for key, entry in vars(value).items() if entry is not None}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value) if isinstance(value, Path) else type(value).__name__
