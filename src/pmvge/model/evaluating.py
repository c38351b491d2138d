"""Evaluate a model on held-out links, with the popularity list and features only beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import GraphError, InputError
from pmvge.evaluation import (
    FEATURES_ONLY,
    POPULARITY,
    HeldOutShare,
    Popularity,
    Results,
    evaluate_held_out,
    evaluate_popularity,
    paired_difference,
)
from pmvge.graph import (
    Links,
    MultiViewGraph,
    Pair,
    find_links,
    pair_key,
    parse_links,
)
from pmvge.likelihoods import Level
from pmvge.model.advice import suggest_changes
from pmvge.model.embedding import (
    embed_graph,
    find_entities,
    ids_identify,
)
from pmvge.model.fitted import Fitted
from pmvge.model.searching.search import known_links


@dataclass(frozen=True, eq=False)
class _Problem:
    """Held-out links, and what is known of their entities."""

    outputs: Mapping[str, NDArray[np.float32]]
    plain: Mapping[str, NDArray[np.float32]]  # without effects, where they can be left out
    new: Mapping[str, NDArray[np.bool_]]  # which entities were not in training
    held_out: dict[Pair, Links]
    known: dict[Pair, Links]
    popularity: dict[Pair, Popularity]
    in_alpha: bool = False  # whether alpha was computed from the held-out links, too

    def shares(self, overlap: Mapping[Pair, int], *, in_alpha: bool) -> dict[Pair, HeldOutShare]:
        """Return the share of held-out links in all links of each view pair.

        ``overlap`` are the numbers of held-out links that were in training.
        """
        found = {}
        for pair, part in self.held_out.items():
            new = len(part) - overlap[pair]
            total = len(self.known[pair]) + new
            found[pair] = HeldOutShare(new / max(1, total), in_alpha)
        return found


def evaluate(
    fitted: Fitted,
    links: Any,
    *,
    include_known: bool,
    exposure: float | None,
    k: int,
    max_pairs: int,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Return the metrics of a model and of the popularity list on held-out links.

    See :meth:`PMvGE.evaluate <pmvge.PMvGE.evaluate>`. Raise InputError if links are not valid, if
    all of them were in training, or if the model has no training links.
    """
    if links is None:
        problem = _of_fit(fitted, include_known)
    elif isinstance(links, MultiViewGraph):
        problem = _of_graph(fitted, links, show_progress)
    else:
        problem = _of_training_entities(fitted, links)
    overlap = {pair: _overlap(part, problem.known[pair]) for pair, part in problem.held_out.items()}
    for (a, b), part in problem.held_out.items():
        if not include_known and 0 < len(part) == overlap[a, b]:
            raise InputError(
                f"links {a},{b}: all {len(part):,} were in training, so none is left to evaluate; "
                "pass include_known=True (--include-known) to evaluate them"
            )
    options: dict[str, Any] = {
        "known": None if include_known else problem.known,
        "exposure": exposure,
        "family": fitted.family,
        "k": k,
        "max_pairs": max_pairs,
    }
    weights = {pair: fitted.alpha_of(*pair).weight for pair in problem.held_out}
    model = {
        "weights": weights,
        "similarity": fitted.pair_similarity,
        "shares": None if include_known else problem.shares(overlap, in_alpha=problem.in_alpha),
        **options,
    }
    levels = _levels(fitted, problem.held_out, problem.new)
    results = evaluate_held_out(problem.outputs, levels, problem.held_out, **model)
    for pair, count in overlap.items():
        if count and pair_key(pair) in results["pairs"]:
            results["pairs"][pair_key(pair)]["in_training"] = count
    popularity = evaluate_popularity(
        problem.held_out,
        problem.popularity,
        shares=None if include_known else problem.shares(overlap, in_alpha=False),
        **options,
    )
    results |= {"popularity": popularity | {"meaning": POPULARITY}}
    without = {
        (a, b): part
        for (a, b), part in problem.held_out.items()
        if a in problem.plain or b in problem.plain
    }
    if any(map(len, without.values())):
        outputs = {**problem.outputs, **problem.plain}
        as_new = {view: np.ones(len(Y), bool) for view, Y in problem.plain.items()}
        levels = _levels(fitted, without, {**problem.new, **as_new})
        features_only = evaluate_held_out(outputs, levels, without, **model)
        results |= {"features_only": features_only | {"meaning": FEATURES_ONLY}}
    uncalibrated = {
        pair_key((a, b)): kinds
        for a, b in problem.held_out
        if (kinds := fitted.uncalibrated(a, b, problem.new[a], problem.new[b]))
    }
    warnings = _compare(fitted, results, k)
    return results | {"uncalibrated": uncalibrated, "warnings": warnings}


def _levels(
    fitted: Fitted, pairs: Iterable[Pair], new: Mapping[str, NDArray[np.bool_]]
) -> dict[Pair, Level]:
    """Return the calibrated log alpha of each view pair; ``new`` says which entities are new."""
    return {(a, b): fitted.level_of(a, b, new[a], new[b]) for a, b in pairs}


def _compare(fitted: Fitted, results: Results, k: int) -> list[str]:
    """Return a warning for each view pair in which the model is not clearly ahead of popularity."""
    found = []
    rivals = results["popularity"]["pairs"]
    for pair, metrics in results["pairs"].items():
        if pair not in rivals:
            continue
        difference = paired_difference(metrics.ndcg, rivals[pair].ndcg)
        if difference.clearly_ahead:
            continue
        own, popular = (values[f"ndcg@{k}"] for values in (metrics, rivals[pair]))
        interval = f"95 % interval {difference.low:+.3f} to {difference.high:+.3f}"
        found.append(
            f"links {pair}: the model is not clearly better than a list of the most popular "
            f"partners: nDCG@{k} {own:.3f} against {popular:.3f} (difference "
            f"{difference.mean:+.3f}, {interval}, {difference.queries:,} queries)"
        )
    return found + ([suggest_changes(fitted)] if found else [])


def _of_fit(fitted: Fitted, include_known: bool) -> _Problem:
    """Return the links that ``fit`` held out, without pairs whose links are all in training."""
    kept = fitted.require_links("evaluate")
    held = {
        pair: part
        for pair, part in kept.held_out.items()
        if include_known or _overlap(part, kept.training[pair]) < len(part)
    }
    known = {pair: kept.training[pair] for pair in held}
    popularity = {pair: Popularity.of(part) for pair, part in known.items()}
    return _Problem(
        fitted.outputs,
        fitted.plain,
        _all_known(fitted),
        held,
        known,
        popularity,
        in_alpha=True,
    )


def _of_training_entities(fitted: Fitted, links: Any) -> _Problem:
    """Return links between training entities."""
    fitted.require_links("evaluate")
    held = _parse(fitted, links)
    known = {pair: fitted.known_links(*pair) for pair in held}
    popularity = {pair: Popularity.of(part) for pair, part in known.items()}
    return _Problem(fitted.outputs, fitted.plain, _all_known(fitted), held, known, popularity)


def _of_graph(fitted: Fitted, graph: MultiViewGraph, show_progress: bool) -> _Problem:
    """Return the links of a graph that may have new entities."""
    fitted.require_links("evaluate")
    if _has_training_ids(fitted, graph):
        return _of_training_entities(fitted, graph.links)
    entities = embed_graph(fitted, graph, show_progress=show_progress)
    positions = {view: found.positions for view, found in entities.items()}
    if all(np.array_equal(at, np.arange(len(fitted.ids[v]))) for v, at in positions.items()):
        return _of_training_entities(fitted, graph.links)
    known, popularity = {}, {}
    for (a, b), links in graph.links.items():
        training = fitted.known_links(a, b)
        matrix = known_links(fitted, a, positions[a], b, positions[b])
        known[a, b] = parse_links("known", matrix, links.shape, a == b, None)
        left, right = (
            np.where(positions[view] >= 0, degree[positions[view]], 0.0)
            for view, degree in zip((a, b), training.degrees(), strict=True)
        )
        popularity[a, b] = Popularity(left, right, training.total, a == b)
    plain = {
        view: fitted.plain[view]
        if entities[view].outputs is fitted.outputs[view]
        else find_entities(fitted, view, graph.views[view], None).outputs
        for view in fitted.plain
        if view in graph.views and (positions[view] >= 0).any()
    }
    outputs = {view: found.outputs for view, found in entities.items()}
    new = {view: found.new for view, found in entities.items()}
    return _Problem(outputs, plain, new, dict(graph.links), known, popularity)


def _all_known(fitted: Fitted) -> dict[str, NDArray[np.bool_]]:
    return {view: np.zeros(len(ids), bool) for view, ids in fitted.ids.items()}


def _has_training_ids(fitted: Fitted, graph: MultiViewGraph) -> bool:
    """Return whether all ids of a graph identify the training entities, in the same order."""
    return all(
        view in fitted.ids
        and np.array_equal(graph.ids[view], fitted.ids[view])
        and (X is None or ids_identify(fitted, view, graph))
        for view, X in graph.views.items()
    )


def _overlap(links: Links, known: Links) -> int:
    """Return how many links are also in ``known``."""
    return int(np.count_nonzero(find_links(known, links.rows, links.cols) >= 0))


def _parse(fitted: Fitted, links: Any) -> dict[Pair, Links]:
    """Return held-out links as positions of the training entities.

    Raise InputError if a view pair was not observed in training, if entities are not those of the
    training, or if weights are not valid.
    """
    if not isinstance(links, Mapping):
        raise InputError(
            "evaluate: expected a MultiViewGraph or {(view, view): links}, got "
            f"{type(links).__name__}"
        )
    found = {}
    for pair, table in links.items():
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise InputError(f"evaluate: links: expected a key (view, view), got {pair!r}")
        a, b = pair
        fitted.log_alpha_of(a, b)
        shape, where = (len(fitted.ids[a]), len(fitted.ids[b])), f"evaluate: links ({a!r}, {b!r})"
        if isinstance(table, Links):
            if table.shape != shape:
                raise InputError(f"{where}: expected shape {shape}, got {table.shape}")
            found[a, b] = table
            continue
        if isinstance(table, tuple) and len(table) in (2, 3):
            ends = (fitted.known_positions(v, e) for v, e in zip(pair, table, strict=False))
            table = (*ends, *table[2:])
        try:
            found[a, b] = parse_links(where, table, shape, a == b, None)
        except GraphError as error:
            raise InputError(str(error)) from error
    return found
