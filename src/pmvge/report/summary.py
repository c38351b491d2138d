"""Data for a report, collected from the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from pmvge.evaluation import MAX_PAIRS
from pmvge.graph import Links, Pair
from pmvge.likelihoods import POISSON, Family
from pmvge.model import PMvGE
from pmvge.pages import display_text, format_number
from pmvge.similarities import INNER, Similarity


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
    family: Family = POISSON

    @property
    def known(self) -> bool:
        """Whether the pair has training links, and so an alpha."""
        return len(self.training) > 0 and math.isfinite(self.log_alpha)


def pair_data(model: PMvGE) -> list[PairData]:
    """Return the data of every view pair; none if the model was saved without its links."""
    if model.links_ is None:
        return []
    pairs = []
    for (a, b), training in model.links_.training.items():
        held = model.links_.held_out.get((a, b))
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
                model.family_.for_pair(a, b),
            )
        )
    return pairs


def evaluation_of(model: PMvGE) -> dict[str, Any] | None:
    """Return metrics of the held-out links, by view pair and overall; None if there are none."""
    if model.links_ is None:
        return None
    results = model.evaluate(max_pairs=MAX_PAIRS)
    return results if results["pairs"] else None


def display_name(model: PMvGE, view: str, at: int) -> str:
    """Return the name of an entity; its id where it has no name."""
    names = model.names_.get(view)
    return str(model.ids_[view][at]) if names is None or not names[at] else str(names[at])


def format_setting(value: Any) -> str:
    """Return a setting of ``PMvGE.describe`` as text."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{display_text(key)}: {format_setting(entry)}" for key, entry in value.items()
        )
    if isinstance(value, list):
        return f"({', '.join(map(format_setting, value))})"
    return format_number(value) if isinstance(value, float) else display_text(value)
