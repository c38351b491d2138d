"""Model and background to plain numbers: what there is, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pmvge.checks import NotFitted
from pmvge.encoders import EncoderSpec
from pmvge.errors import InputError
from pmvge.graph import Links, Pair, merged
from pmvge.model import Background, PMvGE, evaluate_background
from pmvge.pages import number, shown

PAIRS = 20_000_000  # pair terms of a view pair that are looked at; of larger ones a sample of rows


@dataclass(frozen=True, eq=False)
class PairData:
    r"""One observed view pair: embeddings, alpha, and its links.

    ``exposure`` is the held-out weight to expect where the model expects 1: held-out links are
    judged against exposure :math:`\cdot \mu`.
    """

    pair: Pair
    Y: NDArray[Any]  # (n, K)
    Y_other: NDArray[Any]  # (m, K)
    log_alpha: float
    training: Links
    held_out: Links | None  # None if there are none
    exposure: float

    @property
    def known(self) -> bool:
        """Whether there are links to learn an alpha from."""
        return len(self.training) > 0 and math.isfinite(self.log_alpha)


def check_model(model: PMvGE, background: Background | None) -> None:
    """Raise if the model is not fitted, or the background is that of another one."""
    if not hasattr(model, "_fitted"):
        raise NotFitted("this PMvGE is not fitted yet: call fit(graph) before write_report")
    if background is None:
        return
    sizes = {view: len(ids) for view, ids in model.ids_.items()}
    for part in (background.links, background.held_out):
        for (a, b), links in part.items():
            if (a, b) not in model.alpha_error_:
                raise InputError(
                    f"background: the model was not trained on links between {a!r} and {b!r}"
                )
            if links.shape != (sizes[a], sizes[b]):
                raise InputError(
                    f"background: links between {a!r} and {b!r} are among {links.shape} entities, "
                    f"but the model has {(sizes[a], sizes[b])}"
                )
    for view, columns in background.labels.items():
        for name, values in columns.items():
            if len(values) != sizes.get(view, -1):
                raise InputError(
                    f"background: labels {name!r} of view {view!r}: got {len(values)}, but the "
                    f"model has {sizes.get(view, 0)} such entities"
                )


def pair_data(model: PMvGE, background: Background) -> list[PairData]:
    """What is known of every view pair with training links in the background."""
    found = []
    for (a, b), training in background.links.items():
        held = background.held_out.get((a, b))
        held = held if held is not None and len(held) else None
        exposure = held.total / model.alpha_weight_[a, b] if held is not None else 1.0
        Y, Y_other = model.embeddings_[a], model.embeddings_[b]
        log_alpha = model.log_alpha_[a, b]
        found.append(PairData((a, b), Y, Y_other, log_alpha, training, held, exposure))
    return found


def evaluation_of(model: PMvGE, background: Background) -> dict[str, Any] | None:
    """How well held-out links are foretold, by view pair and overall; None if there are none."""
    judged = {
        pair: held
        for pair, held in background.held_out.items()
        if len(merged(background.links[pair], held)) > len(background.links[pair])  # any new one
    }
    results = evaluate_background(
        model.embeddings_,
        model.log_alpha_,
        replace(background, held_out=judged),
        weights=model.alpha_weight_,
        max_pairs=PAIRS,
    )
    return results if results["pairs"] else None


def encoders(model: PMvGE) -> list[dict[str, str]]:
    """Of every view its size, what its rows look like, and what embeds them."""
    rows = []
    for view, schema in model._fitted.schemas.items():
        shape = schema.row_shape
        features = "none" if shape is None else " × ".join(f"{size:,}" for size in shape)
        rows.append(
            {
                "view": view,
                "entities": f"{schema.n:,}",
                "features": features + (", sparse" if schema.sparse and shape else ""),
                "encoder": _encoder(model._fitted.choices[view], model.n_components),
            }
        )
    return rows


def _encoder(choice: EncoderSpec | nn.Module, K: int) -> str:
    if isinstance(choice, nn.Module):
        return f"module {type(choice).__name__}"
    if choice.shared_with is not None:
        return f"that of {choice.shared_with}"
    if choice.kind == "mlp":
        widths = " → ".join(map(str, [*(choice.hidden_sizes or ()), K]))
        return f"mlp → {widths}, {choice.activation}"
    return f"{choice.kind} → {K}"


def settings(model: PMvGE) -> list[tuple[str, str, bool]]:
    """Every setting with its value, and whether it is not the default."""
    usual = type(model)().get_params(deep=False)
    return [
        (name, _setting(value), _setting(value) != _setting(usual.get(name)))
        for name, value in model.get_params(deep=False).items()
    ]


def _setting(value: Any) -> str:
    """A value without addresses in memory: the same model gives the same page."""
    if isinstance(value, Mapping):
        return ", ".join(f"{shown(key)}: {_setting(entry)}" for key, entry in value.items())
    if isinstance(value, EncoderSpec):
        given = {k: v for k, v in vars(value).items() if v is not None}
        return f"({_setting(given)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_setting, value))})"
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, str | bool | int | Path | np.generic):
        return shown(value)
    return type(value).__name__  # modules and generators
