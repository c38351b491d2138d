"""Cross-validation of graphs with scikit-learn: the samples are links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from pmvge.checks import integer
from pmvge.errors import GraphError, ParameterError, choose
from pmvge.graph import MultiViewGraph

Indices = NDArray[np.int64]


class LinkSamples(MultiViewGraph):
    """A graph whose samples, for scikit-learn, are its links, one view pair after the other.

    It is a graph like any other, with a ``shape`` and an index: ``samples[rows]`` is the graph of
    the same entities with these links only. So ``GridSearchCV``, ``cross_validate`` and every
    splitter of scikit-learn that needs no ``y`` can divide it.

    Parameters
    ----------
    graph
        The graph with all links.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pmvge import MultiViewGraph, PMvGE
    >>> from pmvge.tuning import LinkKFold, LinkSamples, link_scorer
    >>> import numpy as np
    >>> a, b = np.nonzero(np.add.outer(np.arange(20), np.arange(15)) % 3 == 0)
    >>> samples = LinkSamples(MultiViewGraph({"a": 20, "b": 15}, {("a", "b"): (a, b)}))
    >>> samples.shape
    (100,)
    >>> model = PMvGE(max_steps=30, patience=None, random_state=0, progress=False)
    >>> search = GridSearchCV(
    ...     model,
    ...     {"n_components": [1, 4]},
    ...     cv=LinkKFold(2, random_state=0),
    ...     scoring=link_scorer("roc_auc"),
    ... )
    >>> search.fit(samples).best_estimator_.n_components
    4
    """

    def __init__(self, graph: MultiViewGraph) -> None:
        if not isinstance(graph, MultiViewGraph):
            raise GraphError(f"expected a MultiViewGraph, got {type(graph).__name__}")
        vars(self).update(vars(graph))

    @property
    def shape(self) -> tuple[int]:
        """The number of links."""
        return (self.n_links,)

    def __len__(self) -> int:
        return self.n_links

    def __getitem__(self, rows: Any) -> LinkSamples:
        wanted = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn asks for [rows, ...]
        chosen = np.zeros(self.n_links, bool)
        chosen[wanted] = True
        kept, start = {}, 0
        for pair, links in self.links.items():
            kept[pair] = links.select(chosen[start : start + len(links)])
            start += len(links)
        return LinkSamples(self.with_links(kept))


class LinkKFold:
    """Splitter of links into folds, for ``cv=`` in scikit-learn.

    Parameters
    ----------
    n_splits
        Number of folds, 2 or more; each is held out once.
    by
        A view: all links of an entity of this view are in one fold, so that held-out entities have
        no links in training. Links of view pairs without this view stay in training. None: links
        are divided at random, those of each view pair evenly.
    random_state
        Seed of the division.
    """

    def __init__(
        self, n_splits: int = 5, *, by: str | None = None, random_state: int | None = None
    ) -> None:
        self.n_splits, self.by, self.random_state = n_splits, by, random_state

    def __repr__(self) -> str:
        return f"LinkKFold({self.n_splits}, by={self.by!r}, random_state={self.random_state!r})"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield positions of the links of training and of held-out links, fold by fold.

        Raise GraphError if X is not a graph, ParameterError if the options do not fit it.
        """
        integer(2)("n_splits", self.n_splits)
        if not isinstance(X, MultiViewGraph):
            raise GraphError(f"LinkKFold: expected LinkSamples(graph), got {type(X).__name__}")
        rng = np.random.default_rng(self.random_state)
        if self.by is not None:
            choose("view", self.by, X.sizes, "LinkKFold: by")
            of_entity = self._deal(X.sizes[self.by], rng)
        folds = []  # of each link; of its two ends, if it is within a view
        for (a, b), links in X.links.items():
            never = np.full(len(links), -1)
            if self.by is None:
                ends = self._deal(len(links), rng), never
            else:
                left = of_entity[links.rows] if a == self.by else never
                ends = left, of_entity[links.cols] if b == self.by else never
            folds.append(np.stack(ends))
        both = np.concatenate(folds, axis=1)
        for fold in range(self.n_splits):
            held = (both == fold).any(axis=0)
            if not 0 < held.sum() < len(held):
                raise ParameterError(
                    f"LinkKFold: n_splits: expected links in and outside of each of "
                    f"{self.n_splits} folds, got {held.sum():,} of {len(held):,} in fold {fold}; "
                    "use another number of folds"
                )
            yield np.flatnonzero(~held), np.flatnonzero(held)

    def _deal(self, n: int, rng: np.random.Generator) -> Indices:
        return rng.permutation(np.arange(n) % self.n_splits)


def link_scorer(
    metric: str = "ndcg@10", *, pair: tuple[str, str] | None = None
) -> Callable[..., float]:
    """Return a function ``(model, graph) -> score``, for ``scoring=`` in scikit-learn.

    It ranks the links of a graph with :meth:`PMvGE.evaluate <pmvge.PMvGE.evaluate>`, so that links
    of the training do not count. If ``fit`` got all links of the graph, it ranks them all: that is
    the score of the training, for ``return_train_score=True``. The model may be the last step of a
    pipeline, or the best of a search. ``metric`` is "roc_auc", "average_precision", "recall@K" or
    "ndcg@K"; ``pair`` is a view pair, None combines all. Raise ParameterError for another metric;
    the function raises it for a view pair without links, and for other estimators.
    """
    name, _, length = metric.partition("@")
    choose("metric", name, ("roc_auc", "average_precision", "recall", "ndcg"), "link_scorer")
    if (name in ("recall", "ndcg")) != length.isdigit() or length == "0":
        raise ParameterError(f"link_scorer: metric: expected recall@10 or roc_auc, got {metric!r}")

    def score(model: Any, graph: MultiViewGraph, y: Any = None) -> float:
        model, graph = _unwrap(model, graph)
        if pair is not None:
            graph = _links_of(graph, pair)
        known = _was_fitted_to(model, graph)
        results = model.evaluate(graph, k=int(length or 10), include_known=known)
        return float(results["overall"][metric])

    return score


def _unwrap(model: Any, graph: Any) -> tuple[Any, Any]:
    """Return the model in pipelines and searches, and the graph as it gets it.

    They pass on ``predict`` and ``score``, but not ``evaluate``.
    """
    while not hasattr(model, "evaluate"):
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            graph = model[:-1].transform(graph) if len(model) > 1 else graph
            model = model[-1]
        else:
            raise ParameterError(
                "link_scorer: expected a PMvGE, or a pipeline or a fitted search with one, got "
                f"{type(model).__name__}"
            )
    return model, graph


def _links_of(graph: MultiViewGraph, pair: tuple[str, str]) -> MultiViewGraph:
    """Return the graph with the links of one view pair, whose views may be in either order."""
    for a, b in (pair, pair[::-1]):
        if (a, b) in graph.links:
            return graph.with_links({(a, b): graph.links[a, b]})
    raise ParameterError(
        f"link_scorer: pair: expected one of {', '.join(map(str, graph.links))}, got {pair}"
    )


def _was_fitted_to(model: Any, graph: Any) -> bool:
    """Return whether a graph has the entities of a model, and only links that ``fit`` got."""
    if getattr(model, "links_", None) is None or not isinstance(graph, MultiViewGraph):
        return False
    if not all(np.array_equal(ids, model.ids_.get(view)) for view, ids in graph.ids.items()):
        return False
    for (a, b), links in graph.links.items():
        known = model.links_.matrix(a, b)
        if known is None or ((links.matrix() != 0) > (known != 0)).nnz:
            return False
    return graph.n_links > 0
