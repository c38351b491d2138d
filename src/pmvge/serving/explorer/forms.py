"""The forms of the explorer's requests and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from pmvge.serving.schemas import Answer, FirstLink, Form, Id, Number, Row

Position = Annotated[int, Field(ge=0, lt=2**31)]
MAX_NAMED = 500  # entities whose names a request asks for


class FindRequest(Form):
    """Letters of ids or names to look for, in one view or in all."""

    text: str = Field(max_length=200, description="The beginning or a part of an id or a name.")
    view: str | None = None
    limit: int = Field(12, ge=1, le=100)


class EntityRequest(Form):
    """A known entity by its id or name, or by its position in the view."""

    view: str
    id: Id | None = None
    at: Position | None = Field(None, description="The position in the view, from 0.")
    k: int = Field(10, ge=1, le=100, description="Number of partners in each view.")
    exclude_known: bool = Field(False, description="Leave out partners that are linked already.")


class NewRequest(Form):
    """A new entity: raw columns, first links, or both."""

    view: str
    row: Row | None = None
    links: dict[str, list[FirstLink]] | None = None
    k: int = Field(10, ge=1, le=100)


class NamesRequest(Form):
    """Positions of entities, by view."""

    positions: dict[str, list[Position]]


class ColorsRequest(Form):
    """A column to colour the entities of a view by."""

    view: str
    column: str


class Found(BaseModel):
    """An entity, and its position in its view."""

    view: str
    at: int
    id: Id
    name: str | None = None
    about: str | None = Field(None, description="Values of columns, for views without names.")


class Near(BaseModel):
    """A partner or a similar entity."""

    at: int
    id: Id
    name: str | None = None
    about: str | None = None
    expected_weight: float | None = None
    similarity: float | None = None
    known: bool | None = None


class Partners(BaseModel):
    """The best entities of one view."""

    view: str
    by: Literal["intensity", "similarity"] = Field(
        description="By expected weight; by similarity if no links of the two views were observed."
    )
    uncalibrated: bool = Field(False, description="Weights of new entities can be off by a factor.")
    entities: list[Near]


class FindAnswer(Answer):
    """Entities whose id or name begins with the text, then those that contain it."""

    found: list[Found]
    more: bool = Field(description="There are more.")


class EntityAnswer(Answer):
    """An entity, its row, its partners and similar ones."""

    view: str
    id: Id | None
    name: str | None
    at: int | None
    xy: tuple[float, float] | None = Field(None, description="Place of a new entity on the map.")
    columns: dict[str, str]
    partners: list[Partners]
    similar: list[Near]


class NamesAnswer(Answer):
    """The entities at the positions."""

    found: list[Found]


class Category(BaseModel):
    """A value of a column, and how many entities have it."""

    text: str
    count: int


class ColorsAnswer(Answer):
    """The codes of a column: a byte for each entity of the view.

    Codes of categories are their numbers; those of numbers go from 0 at ``low`` to 250 at ``high``.
    254 stands for other categories, 255 for no value.
    """

    view: str
    column: str
    kind: Literal["categories", "numbers"]
    categories: list[Category] = Field([], description="The most frequent ones, in order.")
    others: int = Field(0, description="Entities with other categories.")
    other_values: int = Field(0, description="Number of other categories.")
    missing: int = 0
    low: float | None = None
    high: float | None = None
    codes: str = Field(description="Base64 of the bytes.")


class Input(BaseModel):
    """A column of a form for new entities."""

    column: str
    kind: str
    values: list[str] = Field([], description="Known categories.")


class ExploredView(BaseModel):
    """A view of the model."""

    view: str
    n: int
    name: str | None
    columns: list[str]
    labels: list[str]
    features: str
    inputs: list[Input]
    examples: list[Found]


class MapFacts(BaseModel):
    """The map, and how often near points of another view are best partners."""

    id: str
    n: int
    method: str
    partner_share: Number | None
    plain_share: Number | None


class ModelAnswer(Answer):
    """What the page shows before anything is selected."""

    state: Literal["ready", "missing", "computing", "failed"]
    reason: str = Field(description="Why there is no map, or how far it is; empty if there is one.")
    reload: str
    map: MapFacts | None
    views: list[ExploredView]
    pairs: list[tuple[str, str]]
    links: bool = Field(description="Whether the model has its training links.")
