"""All methods there are, ours and the others', and what they say of themselves."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from pmvge import baselines
from pmvge.errors import choose
from pmvge.model import PMvGE

# The paper's table 1, in its order; then those that its text names.
TABLE = (
    "CCA", "DCCA", "MCCA", "SGE", "LINE", "LPP", "CvGE", "CDMCA", "DeepWalk", "SBM", "GCN",
    "GraphSAGE", "IDW", "PMvGE",
)  # fmt: skip
NAMED = (
    "KernelCCA", "HIMFAC", "FactorizationMachine", "Node2Vec", "GNN", "ChebNet", "Isomap", "LLE",
    "MDS",
)  # fmt: skip
FLAGS = ("many_to_many", "nonlinear", "inductive", "likelihood_based")
METHODS: dict[str, type[Any]] = {
    name: PMvGE if name == "PMvGE" else getattr(baselines, name) for name in (*TABLE, *NAMED)
}


@dataclass(frozen=True)
class Card:
    """What a method's class says: its flags, and its docstring taken apart."""

    name: str
    title: str
    what: str
    objective: str  # LaTeX
    choose: str
    references: str
    n_views: int | str
    many_to_many: bool
    nonlinear: bool
    inductive: bool
    likelihood_based: bool


def card(name: str) -> Card:
    """The card of a method."""
    method = METHODS[choose("method", name, METHODS)]
    text = inspect.getdoc(method) or ""
    head, _, _ = text.partition("\nParameters\n")
    title, *paragraphs = re.split(r"\n\s*\n", head.strip())
    objective = next(p for p in paragraphs if p.startswith(".. math::"))
    chosen = next(p for p in paragraphs if p.startswith("Choose it"))
    what = " ".join(p for p in paragraphs if p not in (objective, chosen))
    (references,) = re.findall(r"\nReferences\n-+\n(.*?)(?:\n\n\w+\n-+|$)", text, re.DOTALL)
    return Card(
        name=name,
        title=_line(title).removesuffix("."),
        what=_line(what),
        objective=_line(objective.removeprefix(".. math::")),
        choose=_line(chosen),
        references=_line(references),
        n_views=method.n_views,
        **{flag: getattr(method, flag) for flag in FLAGS},
    )


def cards() -> list[Card]:
    """All cards: the paper's table first, in its order."""
    return [card(name) for name in METHODS]


def _line(text: str) -> str:
    return " ".join(text.split())
