"""All methods, PMvGE included, and their descriptions, read from the class docstrings."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from docstring_parser import Docstring, DocstringStyle, parse

from pmvge import baselines
from pmvge.baselines import Baseline
from pmvge.checks import register
from pmvge.errors import ParameterError, choose
from pmvge.model import PMvGE

# The methods of the paper's table 1, in its order, those that only its text mentions, and others.
TABLE = (
    "CCA", "DCCA", "MCCA", "SGE", "LINE", "LPP", "CvGE", "CDMCA", "DeepWalk", "SBM", "GCN",
    "GraphSAGE", "IDW", "PMvGE",
)  # fmt: skip
IN_TEXT = (
    "KernelCCA", "HIMFAC", "FactorizationMachine", "Node2Vec", "GNN", "ChebNet", "Isomap", "LLE",
    "MDS",
)  # fmt: skip
OTHERS: tuple[str, ...] = ()
FLAGS = ("many_to_many", "nonlinear", "inductive", "likelihood_based")
METHODS: dict[str, type[Any]] = {
    name: PMvGE if name == "PMvGE" else getattr(baselines, name)
    for name in (*TABLE, *IN_TEXT, *OTHERS)
}


@dataclass(frozen=True)
class Card:
    """The description of a method: its flags, and the parts of its class docstring."""

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


def register_method(name: str, method: type[Baseline]) -> None:
    """Add a method, so that recipes, :func:`card` and ``pmvge methods`` know its name.

    Raise ParameterError if the name is taken by another class, or if the class is not a
    :class:`~pmvge.baselines.Baseline` with all flags.
    """
    missing = [flag for flag in ("n_views", *FLAGS) if not hasattr(method, flag)]
    if missing and isinstance(method, type) and issubclass(method, Baseline):
        raise ParameterError(
            f"method {name!r}: expected the class attributes {', '.join(missing)}, got none"
        )
    register("method", METHODS, name, method, Baseline)


def card(name: str) -> Card:
    """Return the description of a method; raise ParameterError if the name is unknown."""
    method = METHODS[choose("method", name, METHODS)]
    doc = parse(inspect.getdoc(method) or "", DocstringStyle.NUMPYDOC)
    paragraphs = (doc.long_description or "").split("\n\n")
    objective = next(p for p in paragraphs if p.startswith(".. math::"))
    advice = next(p for p in paragraphs if p.startswith("Choose it"))
    what = " ".join(p for p in paragraphs if p not in (objective, advice))
    return Card(
        name=name,
        title=_one_line(doc.short_description).removesuffix("."),
        what=_one_line(what),
        objective=_one_line(objective.removeprefix(".. math::")),
        choose=_one_line(advice),
        references=_references(doc),
        n_views=method.n_views,
        **{flag: getattr(method, flag) for flag in FLAGS},
    )


def cards() -> list[Card]:
    """Return the descriptions of all methods, those of the paper's table 1 first, in its order."""
    return [card(name) for name in METHODS]


def _references(doc: Docstring) -> str:
    return " ".join(_one_line(part.description) for part in doc.meta if part.args == ["references"])


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
