"""The learned state of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.encoders import Choice, MultiViewEncoder, ViewSchema
from pmvge.errors import InputError, choose
from pmvge.graph import (
    FEW_IDS,
    Ids,
    Links,
    Pair,
    as_input_ids,
    find_ids,
    require_known,
    sort_ids,
)
from pmvge.likelihoods import KINDS, Family, Level, PairLevels
from pmvge.model.training_links import TrainingLinks
from pmvge.similarities import ByVectors, Similarity
from pmvge.training import History

Labels = Mapping[str, Mapping[str, NDArray[Any]]]  # {view: {name: one string per entity}}


@dataclass(frozen=True)
class Alpha:
    """log alpha of a view pair, with its standard error and the links' total weight."""

    log_value: float
    relative_error: float  # relative standard error of alpha; 0 if it was computed exactly
    weight: float  # total weight of the links that alpha was computed from
    pair_weight: float = 1.0  # the factor of the view pair in the objective

    @property
    def value(self) -> float:
        """Return alpha; 0 or infinity if float64 cannot represent it."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_value))


@dataclass(frozen=True)
class Factor:
    """A factor of the expected weights of new entities, and how it was measured."""

    log_value: float
    relative_error: float  # relative standard error, of the observed weight and of sampled sums
    weight: float  # total weight of the links that it was computed from
    bins: Mapping[str, tuple[float, ...]]  # a reliability diagram after calibration

    @property
    def value(self) -> float:
        """Return the factor; 0 or infinity if float64 cannot represent it."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_value))


Factors = Mapping[Pair, Mapping[str, Factor]]  # by view pair, and by kind: "new-known", ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of training. It keeps the links of the training graph, but not its features."""

    settings: Mapping[str, Any]  # the estimator's parameters as used, with the seed and hold-out
    network: MultiViewEncoder
    choices: Mapping[str, Choice]
    schemas: Mapping[str, ViewSchema]
    n_components: int
    effects: Mapping[str, str]  # the kind of effects of each view
    outputs: dict[str, NDArray[np.float32]]  # (n, K + P): vectors and biases of the entities
    ids: dict[str, Ids]
    given_ids: frozenset[str]  # views whose ids the user gave; others are numbered
    alpha: dict[Pair, Alpha]
    history: History
    seed: int
    tables: Mapping[str, Any] | None  # how rows are made from tables; None without tables
    links: TrainingLinks | None  # None if they were not saved with the model
    labels: Labels = field(default_factory=dict)
    columns: Labels = field(default_factory=dict)  # other texts to show
    names: Mapping[str, str] = field(default_factory=dict)  # {view: the label or column}
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of features
    # (n, K + P) without effects, of views that have both features and effects
    plain: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    factors: Factors = field(default_factory=dict)  # of expected weights of new entities
    full_steps: int = 0  # steps of the fit that was updated; 0: of this one
    # Positions that sort the ids of a view: stored with a memory-mapped model, else computed once.
    orders: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    # Of a memory-mapped model: vectors of the candidates of a view pair, (view of the candidates,
    # view of the queries), and what similar entities of a view are found by.
    candidates: Mapping[Pair, NDArray[np.float32]] = field(default_factory=dict)
    similar: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    checksum: str | None = None  # of the folder that it was loaded from

    @property
    def embeddings(self) -> dict[str, NDArray[np.float32]]:
        """Return the vectors (n, K) of the training entities."""
        return {view: Y[:, : self.n_components] for view, Y in self.outputs.items()}

    @property
    def similarity(self) -> Similarity:
        """Return the similarity of vectors."""
        return self.network.similarity

    @property
    def pair_similarity(self) -> Similarity:
        """Return the similarity of outputs, which includes biases."""
        return self.network.pair_similarity

    @property
    def vector_similarity(self) -> Similarity:
        """Return the similarity of outputs that compares vectors alone, without biases."""
        return ByVectors(self.similarity, self.n_components)

    @property
    def family(self) -> Family:
        """Return the likelihood family of the model."""
        family: Family = self.network.family
        return family

    @property
    def n_steps(self) -> int:
        """The number of steps of a full fit: of this one, or of the one that was updated."""
        last = self.history[-1].step if len(self.history) else 0
        return self.full_steps or last

    def family_of(self, view: str, other: str) -> Family:
        """Return the likelihood family of an observed view pair."""
        return self.family.for_pair(view, other)

    def require_likelihood(self, purpose: str, pairs: Iterable[Pair]) -> None:
        """Raise InputError if the family of a view pair has no probabilities of weights."""
        for a, b in pairs:
            if not self.family_of(a, b).is_likelihood:
                raise InputError(
                    f"{purpose}: the family of ({a!r}, {b!r}) is a divergence, which has no "
                    "likelihood; use evaluate, or fit the model with another family"
                )

    def schema_of(self, view: str) -> ViewSchema:
        """Return the schema of a view; raise InputError if the model has no such view."""
        return self.schemas[choose("view", view, self.schemas, error=InputError)]

    def positions_of(self, view: str, wanted: Ids) -> NDArray[np.int64]:
        """Return the positions of the training entities with these ids, -1 for other ids."""
        if view not in self.orders and len(wanted) > FEW_IDS:
            self.orders[view] = sort_ids(self.ids[view])
        return find_ids(self.ids[view], wanted, self.orders.get(view))

    def known_positions(self, view: str, wanted: Any) -> NDArray[np.int64]:
        """Return the positions of the training entities with one id or several.

        Raise NotInductive if an id was not in training, and InputError if ids are not valid.
        """
        given = as_input_ids(f"view {view!r}: ids", wanted)
        return require_known(view, given, self.positions_of(view, given))

    def candidate_vectors(self, view: str, among: str) -> NDArray[np.float32]:
        """Return the vectors of a view's training entities for queries of view ``among``."""
        if (view, among) in self.candidates:
            return self.candidates[view, among]
        similarity = self.pair_similarity.for_pair(among, view)
        vectors: NDArray[np.float32] = similarity.candidate_array(self.outputs[view])
        return vectors

    def similar_vectors(self, view: str) -> NDArray[np.float32]:
        """Return what the most similar training entities of a view are found by, (n, Q)."""
        if view in self.similar:
            return self.similar[view]
        vectors: NDArray[np.float32] = self.vector_similarity.candidate_array(self.outputs[view])
        return vectors

    def require_links(self, purpose: str) -> TrainingLinks:
        """Return the training links; raise InputError if the model was saved without them."""
        if self.links is None:
            raise InputError(
                f"{purpose}: the model has no training links: it was saved with links=False, or "
                "fitted in several processes with sharded=True; fit it again and save it with its "
                "links"
            )
        return self.links

    def known_links(self, view: str, other: str) -> Links:
        """Return all links of a view pair that were given to ``fit``, in either order.

        Raise InputError if the pair was not observed, or if the model has no training links.
        """
        self.alpha_of(view, other)
        links = self.require_links("known links").known(view, other)
        assert links is not None  # every observed pair has links, possibly none
        return links

    def log_alpha_of(self, view: str, other: str) -> float:
        """Return log alpha of a view pair, in either order; raise as :meth:`alpha_of` does."""
        return self.alpha_of(view, other).log_value

    def alpha_of(self, view: str, other: str, *, remedy: str = "") -> Alpha:
        """Return alpha of a view pair, in either order.

        Raise InputError if a view is unknown, or if the pair was not observed in training; then the
        message ends with ``remedy``.
        """
        self.schema_of(view)
        self.schema_of(other)
        for pair in ((view, other), (other, view)):
            if pair in self.alpha:
                return self.alpha[pair]
        observed = ", ".join(f"({a!r}, {b!r})" for a, b in self.alpha)
        raise InputError(
            f"links between {view!r} and {other!r} were not observed in training, so their alpha "
            f"is unknown: expected one of {observed}{remedy}"
        )

    def factor_of(self, view: str, other: str, kind: tuple[int, int]) -> Factor | None:
        """Return the factor of entity pairs of a kind, (first is new, second is new), or None."""
        if view == other:
            kind = max(kind, kind[::-1])  # unordered
        for pair, wanted in (((view, other), kind), ((other, view), kind[::-1])):
            if (factors := self.factors.get(pair)) is not None:
                return factors.get(KINDS[wanted])
        return None

    def kinds_of(self, view: str, other: str) -> dict[str, tuple[int, int]]:
        """Return the kinds of entity pairs with new entities; within a view they are unordered."""
        return {name: kind for kind, name in KINDS.items() if view != other or kind[0] >= kind[1]}

    def level_of(
        self, view: str, other: str, new: NDArray[np.bool_], new_other: NDArray[np.bool_]
    ) -> Level:
        """Return log alpha of entity pairs, with the factors of those that have new entities.

        ``new`` and ``new_other`` say which entities of each side are new. Raise InputError as
        :meth:`alpha_of` does.
        """
        log_alpha = self.log_alpha_of(view, other)
        if not self.factors:
            return log_alpha
        table = np.full((2, 2), log_alpha)
        for kind in KINDS:
            if (factor := self.factor_of(view, other, kind)) is not None:
                table[kind] += factor.log_value
        used = table[np.ix_(_present(new), _present(new_other))]
        if used.size and (used == used.flat[0]).all():
            return float(used.flat[0])
        return PairLevels(table, new, new_other)

    def uncalibrated(
        self, view: str, other: str, new: NDArray[np.bool_], new_other: NDArray[np.bool_]
    ) -> list[str]:
        """Return the kinds of pairs with new entities that occur here and have no factor."""
        return [
            name
            for name, kind in self.kinds_of(view, other).items()
            if (new == kind[0]).any()
            and (new_other == kind[1]).any()
            and self.factor_of(view, other, kind) is None
        ]


def _present(flags: NDArray[np.bool_]) -> list[int]:
    """Return which of 0 and 1 occur among flags."""
    return [value for value, there in ((0, not flags.all()), (1, flags.any())) if there]


def with_labels(
    fitted: Fitted,
    labels: Mapping[str, Mapping[str, Any]],
    columns: Mapping[str, Mapping[str, Any]],
    names: Mapping[str, str],
) -> Fitted:
    """Return the same model with more labels and columns, ``{view: {name: values}}``, and names.

    ``names`` gives the label or column with the names of a view's entities. Raise InputError for an
    unknown view or column, or a wrong number of values.
    """
    fitted = replace(
        fitted,
        labels=_merged(fitted, "labels", fitted.labels, labels),
        columns=_merged(fitted, "columns", fitted.columns, columns),
    )
    for view, column in names.items():
        choose("view", view, fitted.schemas, "names", error=InputError)
        choose("column", column, texts_of(fitted, view), f"names of {view!r}", error=InputError)
    return replace(fitted, names={**fitted.names, **names})


def texts_of(fitted: Fitted, view: str) -> dict[str, NDArray[Any]]:
    """Return the columns and labels of a view, the names first."""
    texts = {**fitted.columns.get(view, {}), **fitted.labels.get(view, {})}
    first = fitted.names.get(view)
    return texts if first not in texts else {first: texts[first], **texts}


def _merged(
    fitted: Fitted, what: str, before: Labels, new: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, NDArray[Any]]]:
    merged = {view: dict(columns) for view, columns in before.items()}
    for view, columns in new.items():
        n = fitted.schemas[choose("view", view, fitted.schemas, what, error=InputError)].n
        for name, values in columns.items():
            texts = np.asarray(values, dtype=str)
            if texts.shape != (n,):
                raise InputError(
                    f"{what} {name!r} of view {view!r}: expected {n} values, one per entity, got "
                    f"shape {texts.shape}"
                )
            merged.setdefault(view, {})[name] = np.where(_missing(values), "", texts)
    return merged


def _missing(values: Any) -> NDArray[np.bool_]:
    """Return which values are None, NaN, NaT or pandas.NA."""
    found = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if found.dtype != object:
        return np.asarray(found != found)
    return np.array([_is_missing(value) for value in found], bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
