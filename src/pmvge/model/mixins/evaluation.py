"""How well a model predicts links."""

from __future__ import annotations

from typing import Any, Literal, overload

from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods import log_likelihood
from pmvge.model.embedding import embed_graph
from pmvge.model.evaluating import evaluate
from pmvge.model.mixins.learned import LearnedState
from pmvge.progress import progress_bar


class EvaluationMixin(LearnedState):
    """Methods of a fitted model that measure how well it predicts links."""

    @overload
    def log_likelihood(self, graph: MultiViewGraph) -> float: ...

    @overload
    def log_likelihood(
        self, graph: MultiViewGraph, *, by_pair: Literal[True]
    ) -> dict[Pair, float]: ...

    def log_likelihood(
        self, graph: MultiViewGraph, *, by_pair: bool = False
    ) -> float | dict[Pair, float]:
        r"""Return the exact log-likelihood of a graph.

        For the Poisson family it is :math:`\ell_n = \sum_{I_n} [w \log\mu - \mu]`.

        The graph may have new entities; :meth:`evaluate` says which are known. All pairs count,
        linked or not: the time grows with ``graph.n_terms``, the product of the views' sizes.
        Memory is needed for the vectors and little else. With ``by_pair``, return ``{(view, view):
        log-likelihood}``. Raise InputError if a view pair of the graph was not observed in
        training, or if its family is a divergence.
        """
        if not isinstance(graph, MultiViewGraph):
            raise InputError(
                f"log_likelihood: expected a MultiViewGraph, got {type(graph).__name__}"
            )
        fitted = self._check_fitted()
        for pair in graph.links:
            fitted.alpha_of(*pair)
        fitted.require_likelihood("log_likelihood", graph.links)
        found = embed_graph(fitted, graph, show_progress=self.progress)
        with progress_bar("log-likelihood", self.progress) as on_progress:
            values = log_likelihood(
                graph,
                {view: part.outputs for view, part in found.items()},
                {(a, b): fitted.level_of(a, b, found[a].new, found[b].new) for a, b in graph.links},
                similarity=fitted.pair_similarity,
                family=self.family_,
                on_progress=on_progress,
            )
        return values if by_pair else sum(values.values())

    def score(self, graph: MultiViewGraph, y: Any = None) -> float:
        """Return the mean :meth:`log_likelihood` per pair of entities; higher is better."""
        return self.log_likelihood(graph) / max(1, graph.n_terms)

    def evaluate(
        self,
        links: Any = None,
        *,
        k: int = 10,
        include_known: bool = False,
        exposure: float | None = None,
        max_pairs: int = 10**8,
    ) -> dict[str, Any]:
        """Return how well the model predicts held-out links, and how well a popularity list does.

        For a model with effects, its scores without them are beside it. Every entity of a pair's
        first view that has a held-out link is a query; all entities of the second view are ranked,
        without the links that the model was fitted to.

        Parameters
        ----------
        links
            ``{(view, view): links}`` between training entities: ids and weights ``(ids, ids,
            weights)``, or a sparse matrix of the training entities; or a MultiViewGraph, which may
            have new entities. Ids that were given to both graphs identify entities. Default ids
            (0, 1, ...) do not: a view with features that has them has the training entities if it
            repeats their rows, all of them and in the same order, as the graphs of
            ``hold_out_links`` do; else all its entities are new. Rows are equal if they give the
            same vectors. Entities of views without features are looked up by any ids. By default
            the links that ``fit`` held out; they were used for early stopping, if ``patience`` was
            set.
        k
            Length of the ranked lists for recall and nDCG.
        include_known
            Rank known links, too.
        exposure
            Held-out weight per unit of expected weight; by default the total weight of the links
            divided by the total weight given to ``fit``.
        max_pairs
            Number of entity pairs above which queries are sampled.

        Returns
        -------
        results
            ``{"pairs": {"users,films": metrics}, "overall": metrics, "popularity": ...}``, with the
            metrics of :func:`pmvge.evaluation.evaluate_links`. ``in_training`` counts links that
            were in training. "popularity" has the same form, and a sentence "meaning"; so has
            "features_only", the model without effects, if entities with features have effects.
            "uncalibrated" lists, for view pairs with new entities, the kinds whose expected weights
            are not calibrated (see :meth:`uncalibrated`): their E/O and deviance mean little.
            "warnings" are sentences for view pairs in which the model is not clearly ahead of the
            popularity list: the 95 % interval of the difference in nDCG, by query, includes 0.

        Raises
        ------
        InputError
            If links are not valid, if all of them were in training, or if the model was saved
            without its links.
        """
        return evaluate(
            self._check_fitted(),
            links,
            include_known=include_known,
            exposure=exposure,
            k=k,
            max_pairs=max_pairs,
            show_progress=self.progress,
        )
