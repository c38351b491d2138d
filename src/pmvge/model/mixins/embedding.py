"""Vectors and expected weights of known and new entities."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import InputError, choose
from pmvge.graph import MultiViewGraph, as_input_ids
from pmvge.likelihoods import intensity
from pmvge.model.embedding import embed, embed_graph, embed_to_file, find_entities
from pmvge.model.encoder_module import EncoderModule
from pmvge.model.fold_in.fold_in import find_or_fold_in
from pmvge.model.mixins.learned import LearnedState
from pmvge.progress import progress_bar


class EmbeddingMixin(LearnedState):
    """Methods of a fitted model that return vectors and expected weights."""

    def embed(self, view: str, X: Any = None, *, ids: Any = None) -> NDArray[np.float32]:
        r"""Return the vectors (n, K) of known or new entities of a view.

        For the similarities "inner" and "cosine", ``embed(a) @ embed(b).T`` is :math:`g`, including
        the learned scale, but without biases, which :meth:`vectors` includes. Raise NotFitted
        before ``fit``, InputError if the view is unknown or X does not match the rows in training,
        and NotInductive for ids without features that were not in training.

        Parameters
        ----------
        X
            Features (n, ...) of entities. Without ``ids`` all rows are new entities. For a
            featureless view, X are ids of training entities.
        ids
            Ids of the entities. Without X they must be training entities. With X, rows whose id
            was given in training are known entities; default ids (0, 1, ...) identify no row.
        """
        fitted = self._check_fitted()
        fitted.schema_of(view)
        with progress_bar(f"embedding {view}", self.progress) as on_progress:
            return embed(fitted, view, X, ids=ids, on_progress=on_progress)

    def fold_in(
        self,
        view: str,
        X: Any = None,
        *,
        links: Any,
        ids: Any = None,
        exposure: float | None = None,
    ) -> NDArray[np.float32]:
        r"""Return the vectors (n, K) of new entities from their features and their first links.

        Encoders and all known entities stay as they are. The effects of each new entity maximise
        the likelihood of its links, plus the log-density of the effects' prior. A row without
        links has the vector of :meth:`embed`. :meth:`search` and :meth:`vectors` take the same
        ``links``.

        By default the level of a row is not observed: which partners it has counts, given the
        total of its weights, because a newcomer's other links are "not yet". For Poisson weights
        the log-likelihood is then :math:`\sum_j w_{ij} \eta_{ij} - w_{i\cdot} \log \sum_j
        e^{\eta_{ij}}`, and the effect of the bias stays 0. For other families it is the
        log-likelihood, maximal in a level of the row that is added to :math:`\eta`.

        Parameters
        ----------
        X
            Features (n, ...) of the new entities. None for a featureless view with
            ``effects="vector"``, where rows are numbered by ``links``.
        links
            ``{other view: (rows, ids, weights)}``: row numbers of X, ids of known entities, and
            weights (1 if left out). Repeated links add up.
        ids
            Ids of the rows, as in :meth:`embed`: rows whose id was given in training are known
            entities, which keep their effects and can have no first links.
        exposure
            None: zeros are not observed. A number s: the links were collected over a share s of
            the training's exposure, so that the expected weight is :math:`s \mu_{ij}`, and zeros
            are observed. With 1 they say as much as in training.

        Raises
        ------
        InputError
            If the view has no effects, a view pair was not observed in training, ids are unknown,
            row numbers are out of range, or weights are negative or not finite.
        """
        fitted = self._check_fitted()
        fitted.schema_of(view)
        with progress_bar(f"folding in {view}", self.progress) as on_progress:
            found = find_or_fold_in(
                fitted, view, X, ids, links=links, exposure=exposure, on_progress=on_progress
            )
        return found.outputs[:, : fitted.n_components]

    def embed_to(self, path: str | Path, view: str, X: Any, ids: Any = None) -> int:
        """Write ids and vectors of any number of rows to a Parquet file; return the row count.

        The vectors are those of :meth:`embed`. Rows are checked and embedded in chunks of some
        thousands: X may be a memory map larger than memory, an iterator of chunks of rows, or an
        iterator of pairs ``(ids, rows)`` as :func:`pmvge.tables.read_rows` yields them.

        ``ids`` are the ids of all rows, which identify known entities as in :meth:`embed`; by
        default rows are numbered from 0, and new. Repeated ids are not detected. For a featureless
        view, X are the ids. The file has the columns ``id`` and ``vector`` and can be read with
        :meth:`Embeddings.load <pmvge.Embeddings.load>`. It is replaced atomically after all rows
        are embedded: an error leaves an existing file as it was. Raise InputError if rows or ids
        are not valid, and StorageError if the file cannot be written.
        """
        fitted = self._check_fitted()
        return embed_to_file(fitted, Path(path), view, X, ids, show_progress=self.progress)

    def embed_graph(self, graph: MultiViewGraph) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of all entities of a graph, ``{view: (n, K)}``.

        Which entities are known is decided as in :meth:`evaluate`; entities of featureless views
        are looked up by their ids. Raise InputError or NotInductive as :meth:`embed` does.
        """
        fitted = self._check_fitted()
        found = embed_graph(fitted, graph, show_progress=self.progress)
        K = fitted.n_components
        return {view: np.array(part.outputs[:, :K]) for view, part in found.items()}  # copies

    def vectors(
        self,
        view: str,
        X: Any = None,
        *,
        ids: Any = None,
        links: Any = None,
        exposure: float | None = None,
        among: str | None = None,
        side: Literal["query", "candidate"] = "query",
    ) -> NDArray[np.float32]:
        r"""Return vectors whose inner products rank partners, (n, Q), for any vector index.

        ``query`` vectors of one view and ``candidate`` vectors of another have the inner product
        that :meth:`search` ranks by; the similarity g is an increasing function of it. For the
        similarities "inner" and "cosine" both are the vectors of :meth:`embed`; where a view has
        effects, with two more coordinates for the biases. Raise InputError as :meth:`embed` does,
        and if ``among`` is missing where biases depend on it.

        Parameters
        ----------
        X, ids
            Entities, as in :meth:`embed`. Without both, all training entities.
        links, exposure
            First links of new entities, as in :meth:`fold_in`.
        among
            The view of the partners. Needed if this view, or one that it is linked to, has effects:
            biases depend on the view pair.
        side
            "query" for entities that look for partners, "candidate" for possible partners.
        """
        fitted = self._check_fitted()
        choose("side", side, ("query", "candidate"), "vectors: side")
        for name in (view, *([] if among is None else [among])):
            fitted.schema_of(name)
        if among is None and any(
            view in pair for pairs in fitted.network.bias_pairs.values() for pair in pairs
        ):
            raise InputError(
                f"vectors: links of view {view!r} have biases, which depend on the view of the "
                "partners: expected among"
            )
        with progress_bar(f"embedding {view}", self.progress) as on_progress:
            Y = find_or_fold_in(
                fitted, view, X, ids, links=links, exposure=exposure, on_progress=on_progress
            ).outputs
        similarity = fitted.pair_similarity.for_pair(view, view if among is None else among)
        if side == "candidate" and among is not None:
            similarity = fitted.pair_similarity.for_pair(among, view)
        mapped = similarity.query_array(Y) if side == "query" else similarity.candidate_array(Y)
        return np.array(mapped, np.float32)  # a copy, not embeddings_

    def encoder_module(self, view: str) -> EncoderModule:
        """Return a torch module that maps rows of features of new entities to their vectors.

        It includes the input scaling, and shares its weights with the model. Raise InputError if
        the view is unknown or has no features.
        """
        return EncoderModule(self._check_fitted(), view)

    def intensity(
        self,
        view: str,
        X: Any,
        other: str,
        X_other: Any,
        *,
        ids: Any = None,
        ids_other: Any = None,
    ) -> NDArray[np.float64]:
        r"""Return the expected weights :math:`\mu_{ij}` between entities of two views, (n, m).

        X and ``ids``, and X_other and ``ids_other``, give the entities as in :meth:`embed`; where
        both are None, all training entities. Expected weights of new entities can be wrong by a
        factor before :meth:`calibrate`. Raise InputError if the view pair was not observed in
        training: its alpha is unknown.
        """
        fitted = self._check_fitted()
        fitted.alpha_of(view, other, remedy="; search with by='similarity' ranks any pair")
        left, right = (
            find_entities(fitted, v, rows, names)
            for v, rows, names in ((view, X, ids), (other, X_other, ids_other))
        )
        return intensity(
            left.outputs,
            right.outputs,
            fitted.level_of(view, other, left.new, right.new),
            similarity=fitted.pair_similarity.for_pair(view, other),
            family=fitted.family_of(view, other),
        )

    def uncalibrated(self, view: str, other: str) -> tuple[str, ...]:
        """Return the kinds of new entities whose expected weights are not calibrated.

        The kinds are "new-known" (new entities of ``view`` with known ones of ``other``),
        "known-new" and "new-new"; within a view the first two are one. Raise InputError if the view
        pair was not observed in training.
        """
        fitted = self._check_fitted()
        fitted.alpha_of(view, other)
        return tuple(
            name
            for name, kind in fitted.kinds_of(view, other).items()
            if fitted.factor_of(view, other, kind) is None
        )

    def log_alpha_of(self, view: str, other: str) -> float:
        r"""Return :math:`\log\alpha` of a view pair, in either order.

        Raise InputError if the view pair was not observed in training.
        """
        return self._check_fitted().log_alpha_of(view, other)

    def is_known(self, view: str, ids: Any) -> NDArray[np.bool_]:
        """Return which ids are those of training entities, (n,).

        In a view with features only ids that were given in training identify entities. Raise
        InputError if the view is unknown or ids are not valid.
        """
        fitted = self._check_fitted()
        given = as_input_ids(f"view {view!r}: ids", ids)
        if fitted.schema_of(view).row_shape is not None and view not in fitted.given_ids:
            return np.zeros(len(given), bool)
        return np.asarray(fitted.positions_of(view, given) >= 0)
