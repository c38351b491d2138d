"""Partners of entities, and what their expected weights are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError
from pmvge.graph import Ids, as_input_ids
from pmvge.model.explain.explain import explain
from pmvge.model.explain.explanation import Explanation
from pmvge.model.mixins.learned import LearnedState
from pmvge.model.searching.finding import find_by_name
from pmvge.model.searching.indexes import (
    Index,
    build_index,
    load_index,
    new_candidates,
    similar_index,
    training_candidates,
)
from pmvge.model.searching.search import known_links


class SearchMixin(LearnedState):
    """Methods of a fitted model that find and explain partners."""

    def search(
        self,
        view: str,
        X: Any = None,
        *,
        ids: Any = None,
        links: Any = None,
        exposure: float | None = None,
        among: str,
        k: int = 10,
        by: Literal["intensity", "similarity"] = "intensity",
        exclude: Any = None,
        allow: Any = None,
        deny: Any = None,
        min_weight: float | None = None,
        candidates: Any = None,
    ) -> tuple[Ids, NDArray[np.float64]]:
        r"""Return the k best partners of each entity in view ``among``, best first; exact.

        Return ids and scores, both (n, k). Where fewer than k candidates are left, the last scores
        are NaN, and their ids -1 or "". Raise InputError if a view, ``k``, a filter or X is not
        valid or, with ``by="intensity"``, if the view pair was not observed in training.

        Many calls cost less with an :meth:`index`, which prepares the candidates once.

        Parameters
        ----------
        X, ids
            The entities to search for, as in :meth:`embed`. Without both, all training entities.
        links, exposure
            First links of new entities, as in :meth:`fold_in`: row numbers of X, or of the ids of a
            featureless view. Without exposure, expected weights of one row are known up to a
            factor. ``exclude="known"`` leaves out these links, too.
        among
            The view to search in.
        k
            Number of partners.
        by
            Scores are expected weights ("intensity") or similarities g ("similarity", which also
            ranks view pairs that were not observed). Expected weights of new entities can be wrong
            by a factor before :meth:`calibrate`; :meth:`uncalibrated` says for which ones.
        exclude
            Candidates to leave out: "known" for those that an entity was linked to in training
            (validation links included) and, within a view, the entity itself; "self" for the entity
            itself; or ids, for all entities alike. Only known entities have training links.
        allow, deny
            Ids of the only candidates, and ids to leave out, for all entities alike.
        min_weight
            Least expected weight of a partner.
        candidates
            Features of candidates, as X of :meth:`embed`; then positions are returned as ids. They
            are new entities, so ``exclude`` leaves out none of them; for a featureless view they
            are ids of training entities. By default the training entities of ``among``.
        """
        fitted = self._check_fitted()
        for name in (view, among):
            fitted.schema_of(name)
        if candidates is None:
            pool = training_candidates(fitted, among, view)
        else:
            pool = new_candidates(fitted, among, view, candidates)
        return Index(fitted, pool, view, progress=self.progress).search(
            X,
            ids=ids,
            links=links,
            exposure=exposure,
            k=k,
            by=by,
            exclude=exclude,
            allow=allow,
            deny=deny,
            min_weight=min_weight,
        )

    def similar(
        self,
        view: str,
        X: Any = None,
        *,
        ids: Any = None,
        links: Any = None,
        exposure: float | None = None,
        k: int = 10,
    ) -> tuple[Ids, NDArray[np.float64]]:
        """Return the k other entities of a view with the most similar vectors, best first; exact.

        Vectors are compared without biases, so popular entities are not preferred. Return ids and
        cosines, both (n, k); with one or two components, and for ``similarity="euclidean"``, minus
        half the squared distances, and for ``"hyperbolic"`` minus the distances. Where there are
        fewer than k other entities, the last scores are NaN, and their ids -1 or "".

        X, ids, links and exposure give the entities, as in :meth:`search`. Raise InputError if they
        or ``k`` are not valid, and NotInductive for unknown ids without features. The partners that
        an entity is expected to be linked to in its own view are those of :meth:`search`.
        """
        index = similar_index(self._check_fitted(), view, progress=self.progress)
        return index.search(
            X, ids=ids, links=links, exposure=exposure, k=k, by="similarity", exclude="self"
        )

    def index(
        self, view: str, among: str | None = None, kind: Literal["exact", "hnsw"] = "exact"
    ) -> Index:
        """Return an index of the training entities of a view, as candidates for many searches.

        ``model.index("films", among="users").search(ids=["u7"])`` returns the best films of a user,
        as ``model.search("users", ids=["u7"], among="films")`` does. The index holds vectors of
        ``view`` as :meth:`vectors` returns them for partners in ``among``.

        Parameters
        ----------
        view
            The view of the candidates.
        among
            The view of the entities that are searched for. By default ``view`` itself; if links
            within the view were not observed, search it ``by="similarity"``. :meth:`similar` finds
            entities with similar vectors.
        kind
            "exact" compares every candidate. "hnsw" looks at few of them, in a graph that takes
            minutes to build for a million candidates; its recall is measured when it is built, and
            is in ``index.recall``. It needs the extra ``ann``.

        Raises
        ------
        InputError
            If a view or the kind is unknown, or if the extra is not installed.
        """
        return build_index(self._check_fitted(), view, among, kind, progress=self.progress)

    def load_index(self, folder: str | Path, view: str, among: str | None = None) -> Index:
        """Return the approximate index that :meth:`Index.save <pmvge.model.Index.save>` wrote.

        Raise StorageError if the folder has none, if it is damaged, or if it is stale: built from
        other vectors than those of this model.
        """
        fitted = self._check_fitted()
        return load_index(fitted, Path(folder), view, among, progress=self.progress)

    def explain(
        self,
        view: str,
        entity: Any,
        other: str,
        partner: Any,
        *,
        X: Any = None,
        X_other: Any = None,
        links: Any = None,
        exposure: float | None = None,
        max_parts: int = 20,
        k: int = 5,
    ) -> Explanation:
        r"""Return the terms that add up to the log expected weight of one entity pair.

        They are log alpha, the factor of :meth:`calibrate` for new entities, the biases of both
        entities (from features, and from effects), and the similarity of their vectors, split by
        integrated gradients over features and effects of both entities jointly. Features of a raw
        table are named by its columns and values, those of arrays by their numbers. A remainder,
        the error of the numerical integral, makes the sum exact; it is at most 1 % of the
        similarity's difference from the baseline, or 1e-4.

        The baseline is an average entity without links: the mean row of the training, a row of
        zeros for sparse features and user-defined modules, and effects 0. For families whose
        expected weight is not :math:`e^\eta`, the terms add up to :math:`\eta`.

        Parameters
        ----------
        entity, partner
            The two entities: an id of the training; a row of features, for a new entity; or a dict
            ``{column: value}`` of a raw table's row, which is new unless it has a known id.
        X, X_other
            Rows of features of entities that are given by their ids. Without them, features are
            taken from the columns that the model keeps. If it does not keep all of them, they are
            one part, and a note says so.
        links, exposure
            First links of a new ``entity``, ``{view: (rows, ids, weights)}`` with row number 0, and
            their exposure, as in :meth:`fold_in`. What they add is a part of its own, and they are
            the evidence. ``entity`` may be None in a view without features. If the partner is the
            new one, exchange the two.
        max_parts
            Number of features of each entity that are listed; the others are added up.
        k
            Number of known partners that are listed as evidence.

        Raises
        ------
        InputError
            If a view, id, row or column is not valid, or if the view pair was not observed in
            training.
        """
        fitted = self._check_fitted()
        for name, value, least in (("max_parts", max_parts, 1), ("k", k, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"explain: {name}: expected an integer >= {least}, got {value!r}")
        return explain(
            fitted,
            view,
            entity,
            other,
            partner,
            X=X,
            X_other=X_other,
            links=links,
            exposure=exposure,
            max_parts=max_parts,
            k=k,
        )

    def known_links(self, view: str, ids: Any, *, among: str) -> sparse.csr_array:
        """Return the weights of links between known entities and all entities of ``among``.

        They are the links that were given to ``fit``, validation links included, as a matrix
        (n, m). New ids have none. Raise InputError if a view is unknown, or if the model was saved
        without its links.
        """
        fitted = self._check_fitted()
        for name in (view, among):
            fitted.schema_of(name)
        wanted = fitted.positions_of(view, as_input_ids(f"view {view!r}: ids", ids))
        return known_links(fitted, view, wanted, among)

    def find(self, view: str, texts: Any, *, suggest: bool = True) -> Ids:
        """Return the ids of training entities from ids or names, given as one text or several.

        An id is preferred to a name, and an equal name to one that differs in case only. Raise
        InputError, which lists similar ids and names, if nothing matches, and with the ids if
        several entities have the name. ``suggest=False`` saves the search for similar ones, which
        takes seconds among 100,000 names.
        """
        fitted = self._check_fitted()
        fitted.schema_of(view)
        names = [texts] if np.isscalar(texts) else list(texts)
        return find_by_name(fitted, view, names, suggest=suggest)
