"""The forms of requests and answers."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from pmvge.errors import short

MAX_INTEGER = 2**63


def _check_id(value: Any) -> int | str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        if isinstance(value, int) and not -MAX_INTEGER <= value < MAX_INTEGER:
            raise ValueError(f"expected an integer of 64 bits, got {short(value)}")
        return value
    raise ValueError(f"expected an id, an integer or a text, got {short(value)}")


def _check_cell(value: Any) -> Any:
    """Return a value of a column; lists are values of vectors and of several categories."""
    if isinstance(value, list):
        for part in value:
            if isinstance(part, list | dict):
                raise ValueError(f"expected a list of numbers or of texts, got {short(value)}")
            _check_cell(part)
    elif isinstance(value, dict):
        raise ValueError(f"expected a number, a text, a list or null, got {short(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, or null for a missing one, got {value}")
    elif isinstance(value, int) and not -MAX_INTEGER <= value < MAX_INTEGER:
        raise ValueError(f"expected an integer of 64 bits, got {short(value)}")
    return value


_PLAIN = [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]
Id = Annotated[
    Any,
    PlainValidator(_check_id),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]
Cell = Annotated[
    Any,
    PlainValidator(_check_cell),
    WithJsonSchema({"anyOf": [*_PLAIN, {"type": "array", "items": {"anyOf": _PLAIN[:2]}}]}),
]
Row = dict[str, Cell]
Number = Annotated[float, Field(allow_inf_nan=False)]
Scores = list[list[float | None]]


class Form(BaseModel):
    """A JSON object without other keys than these."""

    model_config = ConfigDict(extra="forbid")


class FirstLink(Form):
    """A link of a new entity with a known one."""

    row: int = Field(0, ge=0, lt=2**31, description="The number of the new entity, from 0.")
    id: Id = Field(description="The id or name of the known entity.")
    weight: Number = Field(1.0, ge=0, description="The weight, as in the training link table.")


class Entities(Form):
    """Entities of a view: known ones by ids or names, or new ones by raw rows or features."""

    view: str = Field(description="The view of the entities.")
    ids: list[Id] | None = Field(None, description="Ids or names of known entities.")
    rows: list[Row] | None = Field(
        None, description="Rows with the columns of the training table; ids of training are known."
    )
    features: list[Any] | None = Field(
        None, description="Rows of numbers, for a model that was fitted to arrays."
    )


class LinkedEntities(Entities):
    """Entities, of which new ones can have first links."""

    links: dict[str, list[FirstLink]] | None = Field(
        None, description="First links of new entities, by the view of the known ones."
    )
    exposure: Number | None = Field(
        None, gt=0, description="Share of the training's exposure; null: zeros are not observed."
    )


class SearchRequest(LinkedEntities):
    """A search for the best partners in another view, or in the same."""

    among: str = Field(description="The view to search in.")
    k: int = Field(10, ge=1, description="Number of partners of each entity.")
    by: Literal["intensity", "similarity"] = Field(
        "intensity", description="Rank by expected weights, or by similarities (any two views)."
    )
    index: Literal["exact", "hnsw"] = Field(
        "exact", description="Compare all candidates, or use the approximate index of the folder."
    )
    exclude_known: bool = Field(False, description="Leave out partners that are linked already.")
    allow: list[Id] | None = Field(None, description="Ids of all possible partners.")
    deny: list[Id] | None = Field(None, description="Ids of partners to leave out.")
    min_weight: Number | None = Field(None, description="Least expected weight of a partner.")
    show: list[str] = Field([], description="Columns of the partners to add.")


class SimilarRequest(LinkedEntities):
    """A search for the most similar entities of the same view."""

    k: int = Field(10, ge=1, description="Number of similar entities of each entity.")
    show: list[str] = Field([], description="Columns of the similar entities to add.")


class EmbedRequest(Entities):
    """Entities whose vectors are wanted."""


class FoldInRequest(LinkedEntities):
    """New entities whose vectors are computed from their features and first links."""

    links: dict[str, list[FirstLink]] = Field(
        description="First links of new entities, by the view of the known ones."
    )


class IntensityRequest(Form):
    """Entities of two views whose expected weights are wanted, each with each."""

    entities: Entities
    others: Entities


class ExplainRequest(Form):
    """Pairs of entities whose expected weights are explained: the first with the first, ..."""

    entities: LinkedEntities
    others: Entities
    parts: int = Field(20, ge=1, le=1000, description="Features of each entity to list, at most.")
    k: int = Field(5, ge=0, description="Known partners to list as evidence.")


class Answer(BaseModel):
    """What every answer has."""

    model: str = Field(description="The checksum of the model that gave the answer.")
    notes: list[str] = Field([], description="Sentences on missing and unknown values.")


class Partner(BaseModel):
    """A partner of an entity."""

    id: Id
    name: str | None = None
    columns: dict[str, str] | None = None
    expected_weight: float | None = None
    similarity: float | None = None
    known: bool | None = Field(None, description="Linked already; null if the model has no links.")


class Result(BaseModel):
    """An entity and its best partners, best first."""

    id: Id
    name: str | None = None
    partners: list[Partner]


class SearchAnswer(Answer):
    """The best partners of each entity, in the order of the request."""

    view: str
    among: str
    by: str
    uncalibrated: list[str] = Field(
        [], description="Kinds of new entities whose expected weights can be wrong by a factor."
    )
    results: list[Result]


class VectorsAnswer(Answer):
    """The vectors of entities, in the order of the request."""

    view: str
    ids: list[Id] = Field(description="Ids of the entities; row numbers if they have none.")
    known: list[bool] = Field(description="Which of them were in training.")
    vectors: list[list[float]]


class IntensityAnswer(Answer):
    """The expected weights of all pairs of entities: a row for each of ``entities``."""

    view: str
    other: str
    ids: list[Id]
    other_ids: list[Id]
    uncalibrated: list[str] = []
    expected_weights: Scores


class PartAnswer(BaseModel):
    """One term of a log expected weight."""

    name: str
    side: str
    view: str | None
    kind: str
    value: float | None


class EvidenceAnswer(BaseModel):
    """A known partner of the entity that is near to the candidate."""

    id: Id
    name: str | None
    weight: float | None
    similarity: float | None


class ExplanationAnswer(BaseModel):
    """The terms that add up to the log expected weight of two entities."""

    view: str
    id: Id | None
    name: str | None
    other: str
    partner: Id | None
    partner_name: str | None
    expected_weight: float | None
    log_expected_weight: float | None
    parts: list[PartAnswer]
    linked: float | None = Field(description="Weight of their link in training, 0 without.")
    evidence: list[EvidenceAnswer] | None
    notes: list[str]


class ExplainAnswer(Answer):
    """An explanation of each pair, in the order of the request."""

    explanations: list[ExplanationAnswer]


class ViewAnswer(BaseModel):
    """A view of the model."""

    n: int = Field(description="Number of entities in training.")
    features: str
    columns: dict[str, str] = Field(description="Kinds of the columns of its table.")
    id: str | None = Field(description="The id column of its table.")
    name: str | None = Field(description="The column with the names of the entities.")
    show: list[str] = Field(description="Columns that answers can show.")
    effects: str


class ViewsAnswer(Answer):
    """The views of the model, and the view pairs with expected weights."""

    n_components: int
    similarity: str
    views: dict[str, ViewAnswer]
    pairs: list[tuple[str, str]]
    limits: dict[str, int]


class HealthAnswer(BaseModel):
    """Whether the server answers, with which model, and whether a newer one can be read."""

    status: Literal["ok"]
    model: str
    reload: str


class ErrorAnswer(BaseModel):
    """An error."""

    error: str = Field(description="One sentence.")
