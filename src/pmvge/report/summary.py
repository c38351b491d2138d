"""Data for a report, collected from the model and its background."""

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
from pmvge.graph import Links, Pair, merge_links
from pmvge.model import Background, PMvGE, evaluate_background
from pmvge.pages import display_text, format_number
from pmvge.similarities import INNER, Similarity

MAX_PAIRS = 20_000_000  # of a view pair; larger ones are estimated on a sample of rows


@dataclass(frozen=True, eq=False)
class PairData:
    r"""One observed view pair: vectors, alpha, and links.

    ``exposure`` is the expected held-out weight of a pair with :math:`\mu = 1`. Held-out links
    are compared with exposure :math:`\cdot \mu`.
    """

    pair: Pair
    query: NDArray[Any]  # (n, Q)
    candidate: NDArray[Any]  # (m, Q)
    log_alpha: float
    training: Links
    held_out: Links | None  # None: no held-out links
    exposure: float
    similarity: Similarity = INNER

    @property
    def known(self) -> bool:
        """Whether the pair has training links, and so an alpha."""
        return len(self.training) > 0 and math.isfinite(self.log_alpha)


def check_model(model: PMvGE, background: Background | None) -> None:
    """Raise NotFitted or InputError if a model or its background cannot be reported.

    The links and labels of the background must match the model's views and entities.
    """
    if not hasattr(model, "_fitted"):
        raise NotFitted("write_report: expected a fitted PMvGE; call fit(graph) first")
    if background is None:
        return
    sizes = {view: len(ids) for view, ids in model.ids_.items()}
    for part in (background.links, background.held_out):
        for (a, b), links in part.items():
            if (a, b) not in model.alpha_error_:
                raise InputError(
                    f"background: expected links of view pairs that the model was trained on, "
                    f"got links between {a!r} and {b!r}"
                )
            if links.shape != (sizes[a], sizes[b]):
                raise InputError(
                    f"background: links between {a!r} and {b!r}: expected "
                    f"{(sizes[a], sizes[b])} entities as in the model, got {links.shape}"
                )
    for view, columns in background.labels.items():
        for name, values in columns.items():
            if len(values) != sizes.get(view, -1):
                raise InputError(
                    f"background: labels {name!r} of view {view!r}: expected one for each of the "
                    f"model's {sizes.get(view, 0)} entities, got {len(values)}"
                )


def pair_data(model: PMvGE, background: Background) -> list[PairData]:
    """Return the data of every view pair of the background."""
    pairs = []
    for (a, b), training in background.links.items():
        held = background.held_out.get((a, b))
        held = held if held is not None and len(held) else None
        exposure = held.total / model.alpha_weight_[a, b] if held is not None else 1.0
        pairs.append(
            PairData(
                (a, b),
                model.vectors(a, among=b, side="query"),
                model.vectors(b, among=a, side="candidate"),
                model.log_alpha_[a, b],
                training,
                held,
                exposure,
                model.similarity_,
            )
        )
    return pairs


def evaluation_of(model: PMvGE, background: Background) -> dict[str, Any] | None:
    """Return metrics of the held-out links, by view pair and overall; None if there are none."""
    evaluated = {
        pair: held
        for pair, held in background.held_out.items()
        # Skip pairs whose held-out links are all in training.
        if len(merge_links(background.links[pair], held)) > len(background.links[pair])
    }
    results = evaluate_background(
        model.embeddings_,
        model.log_alpha_,
        replace(background, held_out=evaluated),
        weights=model.alpha_weight_,
        similarity=model.similarity_,
        max_pairs=MAX_PAIRS,
    )
    return results if results["pairs"] else None


def encoders(model: PMvGE) -> list[dict[str, str]]:
    """Return name, size, features and encoder of every view, as text."""
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
        return f"shared with {choice.shared_with}"
    if choice.kind == "mlp":
        widths = " → ".join(map(str, [*(choice.hidden_sizes or ()), K]))
        return f"mlp → {widths}, {choice.activation}"
    return f"{choice.kind} → {K}"


def settings(model: PMvGE) -> list[tuple[str, str, bool]]:
    """Return every parameter with its value, and whether it differs from the default."""
    defaults = type(model)().get_params(deep=False)
    return [
        (name, _setting(value), _setting(value) != _setting(defaults.get(name)))
        for name, value in model.get_params(deep=False).items()
    ]


def _setting(value: Any) -> str:
    """Return a value as text without memory addresses: the same model gives the same page."""
    if isinstance(value, Mapping):
        return ", ".join(f"{display_text(key)}: {_setting(entry)}" for key, entry in value.items())
    if isinstance(value, EncoderSpec):
        given = {k: v for k, v in vars(value).items() if v is not None}
        return f"({_setting(given)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_setting, value))})"
    if isinstance(value, float):
        return format_number(value)
    if value is None or isinstance(value, str | bool | int | Path | np.generic):
        return display_text(value)
    return type(value).__name__  # modules and generators
