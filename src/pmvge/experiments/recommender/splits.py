"""Splits of links between two views: held-out links, unseen entities, and MAGNN's split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.datasets import LinkSplit
from pmvge.graph import Features, Links, MultiViewGraph, Pair, find_ids, hold_out_links

Index = NDArray[np.int64]
Pairs = tuple[Index, Index]  # rows and columns


@dataclass(frozen=True, eq=False)
class Split:
    """The graph that methods are fitted to, and the links that they are evaluated on.

    Rows of ``truth`` are the training entities of the first view, or its unseen entities if ``new``
    has their features; columns likewise for the second view.
    """

    pair: Pair
    train: MultiViewGraph
    truth: Links
    known: Links | None = None  # pairs that are not ranked
    new: Mapping[str, Features] = field(default_factory=dict)
    queries: NDArray[Any] | None = None  # ids of the rows
    # Of unseen entities of the first view: their first links by number, the later links, the
    # training graph with the entities and all first links added, and their rows in it.
    first: Mapping[int, sparse.csr_array] = field(default_factory=dict)
    later: Links | None = None
    extended: MultiViewGraph | None = None
    rows: Index | None = None
    negatives: Pairs | None = None  # pairs without a link, as many as there are links in ``truth``


def hold_out_warm(graph: MultiViewGraph, share: float, rng: np.random.Generator) -> Split:
    """Hold out a share of the links; all entities stay in training."""
    (pair,) = graph.links
    train, held = hold_out_links(graph, share, rng)
    known, ids = train.links[pair], graph.ids[pair[0]]
    return Split(pair, train, held.links[pair], known, queries=ids)


def hold_out_candidates(graph: MultiViewGraph, share: float, rng: np.random.Generator) -> Split:
    """Hold out a share of the second view's entities, with all their links."""
    (pair,) = graph.links
    train, unseen = _hold_out(graph, pair[1], share, rng)
    return Split(
        pair,
        train,
        unseen.links[pair],
        new={pair[1]: _features(unseen, pair[1])},
        queries=graph.ids[pair[0]],
    )


def hold_out_queries(
    graph: MultiViewGraph, share: float, counts: tuple[int, ...], rng: np.random.Generator
) -> Split:
    """Hold out a share of the first view's entities, with all their links.

    The first links of an unseen entity are drawn at random, as many as the largest of ``counts``.
    Later links exist only for entities that have more links than that.
    """
    (pair,) = graph.links
    train, unseen = _hold_out(graph, pair[0], share, rng)
    rows = find_ids(graph.ids[pair[0]], unseen.ids[pair[0]])
    links, most = unseen.links[pair], max(counts)
    order = rng.permutation(len(links))
    order = order[np.argsort(links.rows[order], kind="stable")]  # random within each entity
    degrees = np.bincount(links.rows, minlength=links.shape[0])
    rank = np.arange(len(links)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    position = np.empty(len(links), np.int64)
    position[order] = rank
    enough = degrees[links.rows] > most
    first = links.select(enough & (position < most))
    all_links = graph.links[pair]
    m = all_links.shape[1]
    cells, own = (
        each.astype(np.int64) * m + cols
        for each, cols in ((all_links.rows, all_links.cols), (rows[first.rows], first.cols))
    )
    kept = ~np.isin(all_links.rows, rows) | np.isin(cells, own)
    return Split(
        pair,
        train,
        links,
        known=first,
        new={pair[0]: _features(unseen, pair[0])},
        queries=unseen.ids[pair[0]],
        first={n: links.select(enough & (position < n)).matrix() for n in counts},
        later=links.select(enough & (position >= most)),
        extended=graph.with_links({pair: all_links.select(kept)}),
        rows=rows,
    )


def magnn_split(graph: MultiViewGraph, parts: LinkSplit, part: str, seed: int, pair: Pair) -> Split:
    """Return MAGNN's training links, and those of its "validation" or "test" part.

    Links of other view pairs are all in training. As in MAGNN, there is one negative for each link:
    a pair drawn uniformly, without replacement, from all pairs that are linked in no part.
    """
    linked = (parts.train, parts.validation, parts.test)
    n, m = parts.train.shape
    taken = np.sort(np.concatenate([each.rows.astype(np.int64) * m + each.cols for each in linked]))
    sizes = {"validation": len(parts.validation), "test": len(parts.test)}
    drawn = np.random.default_rng(seed).choice(
        n * m - len(taken), sum(sizes.values()), replace=False
    )
    # The k-th pair that is not linked: skip the linked pairs before it.
    cells = drawn + np.searchsorted(taken - np.arange(len(taken)), drawn, side="right")
    own = cells[: sizes["validation"]] if part == "validation" else cells[sizes["validation"] :]
    truth = parts.validation if part == "validation" else parts.test
    train = graph.with_links({**graph.links, pair: parts.train})
    return Split(pair, train, truth, negatives=(own // m, own % m))


def _hold_out(
    graph: MultiViewGraph, view: str, share: float, rng: np.random.Generator
) -> tuple[MultiViewGraph, MultiViewGraph]:
    """Return the graph without a share of a view's entities, and the graph of these entities."""
    n = graph.sizes[view]
    order = rng.permutation(n)
    n_out = round(share * n)
    kept, unseen = np.sort(order[n_out:]), np.sort(order[:n_out])
    return graph.subgraph({view: kept}), graph.subgraph({view: unseen})


def _features(graph: MultiViewGraph, view: str) -> Features:
    X = graph.views[view]
    assert X is not None  # the experiments' data sets have features where entities are held out
    return X
