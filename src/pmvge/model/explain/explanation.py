"""What makes up an expected weight, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from pmvge.pages import finite_json

PartKind = Literal[
    "alpha", "calibration", "bias", "bias effect", "baseline", "feature", "effects", "remainder"
]


@dataclass(frozen=True)
class Part:
    """One term of a log expected weight.

    ``name`` is what to show, such as "age = 24". ``side`` is "entity", "partner", or "pair" for
    terms that belong to both; ``view`` is the view of the side.
    """

    name: str
    side: Literal["pair", "entity", "partner"]
    view: str | None
    kind: PartKind
    value: float


@dataclass(frozen=True)
class Evidence:
    """A known partner of an entity, and how similar its vector is to that of the candidate.

    ``similarity`` is that of :meth:`PMvGE.similar <pmvge.PMvGE.similar>`: mostly the cosine.
    """

    id: int | str
    name: str | None
    weight: float
    similarity: float


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""The terms of the log expected weight of one entity pair, and known partners like it.

    ``log_expected_weight`` is :math:`\eta = \log\alpha + g`, the sum of the values of ``parts``. It
    is the logarithm of ``expected_weight``, except for families whose expected weight is not
    :math:`e^\eta`, such as "bernoulli".

    ``id`` and ``partner`` are None for new entities without an id. ``linked`` is the weight of the
    link between the two that ``fit`` was given, 0 without; None if the model has no training links.
    ``evidence`` lists the partners of the entity that are nearest to the candidate, nearest first;
    it is empty for new entities, and None if the model has no training links. ``notes`` are
    sentences on what could not be split.
    """

    view: str
    id: int | str | None
    name: str | None
    other: str
    partner: int | str | None
    partner_name: str | None
    expected_weight: float
    log_expected_weight: float
    parts: tuple[Part, ...]
    linked: float | None
    evidence: tuple[Evidence, ...] | None
    notes: tuple[str, ...] = ()

    @property
    def remainder(self) -> float:
        """The error of the integral that splits the similarity, which makes the sum exact."""
        return next(part.value for part in self.parts if part.kind == "remainder")

    @property
    def sums_to_log(self) -> bool:
        """Whether the parts add up to the logarithm of the expected weight, as with "poisson"."""
        weight = np.exp(self.log_expected_weight)
        return bool(np.isclose(self.expected_weight, weight, rtol=1e-3, atol=0))

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON values; numbers that are not finite become None."""
        plain: dict[str, Any] = finite_json(asdict(self))
        return plain

    def __str__(self) -> str:
        lines = [
            f"{_called(self.view, self.id, self.name)} - "
            f"{_called(self.other, self.partner, self.partner_name)}: expected weight "
            f"{self.expected_weight:.4g}, {'log' if self.sums_to_log else 'eta'} "
            f"{self.log_expected_weight:.4g}"
        ]
        width = max(len(part.name) for part in self.parts)
        lines += [
            f"  {part.name:<{width}}  {part.value:+9.4f}  {part.view or ''}".rstrip()
            for part in self.parts
        ]
        if self.evidence:
            lines.append(f"because of {self.other} it is linked to:")
            lines += [
                f"  {_called('', entry.id, entry.name)}: weight {entry.weight:.4g}, "
                f"similarity {entry.similarity:.3f}"
                for entry in self.evidence
            ]
        return "\n".join([*lines, *self.notes])


def _called(view: str, id_: int | str | None, name: str | None) -> str:
    if id_ is None:
        return f"new {view}"
    return f"{view} {name} ({id_})".strip() if name else f"{view} {id_}".strip()
