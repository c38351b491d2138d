"""Evaluate a model on held-out links, with the popularity list beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmvge.errors import InputError
from pmvge.evaluation import POPULARITY, Results, evaluate_held_out, evaluate_popularity
from pmvge.graph import Links, MultiViewGraph, Pair, known_positions, parse_links
from pmvge.model.fitted import Fitted


def evaluate(
    fitted: Fitted,
    links: Any,
    *,
    include_known: bool,
    exposure: float | None,
    k: int,
    max_pairs: int,
) -> Results:
    """Return the metrics of a model and of the popularity list on held-out links.

    See :meth:`PMvGE.evaluate <pmvge.PMvGE.evaluate>`. Raise InputError if links are not valid, if
    all of them were in training, or if the model has no training links.
    """
    kept = fitted.require_links("evaluate")
    if links is None:
        held, known = dict(kept.held_out), dict(kept.training)
    else:
        held = _parse(fitted, links)
        known = {pair: fitted.known_links(*pair) for pair in held}
    overlap = {pair: _overlap(part, known[pair]) for pair, part in held.items()}
    if links is None and not include_known:  # skip pairs whose held-out links repeat training links
        held = {pair: part for pair, part in held.items() if overlap[pair] < len(part)}
    for (a, b), part in held.items():
        if not include_known and 0 < len(part) == overlap[a, b]:
            raise InputError(
                f"links {a},{b}: all {len(part):,} were in training, so none is left to evaluate; "
                "pass include_known=True (--include-known) to evaluate them"
            )
    results = evaluate_held_out(
        fitted.embeddings,
        {pair: fitted.log_alpha_of(*pair) for pair in held},
        held,
        known=None if include_known else known,
        weights={pair: fitted.alpha_of(*pair).weight for pair in held},
        exposure=exposure,
        similarity=fitted.similarity,
        family=fitted.family,
        k=k,
        max_pairs=max_pairs,
    )
    for (a, b), count in overlap.items():
        if count and f"{a},{b}" in results["pairs"]:
            results["pairs"][f"{a},{b}"]["in_training"] = count
    popularity = evaluate_popularity(
        held,
        known,
        include_known=include_known,
        exposure=exposure,
        family=fitted.family,
        k=k,
        max_pairs=max_pairs,
    )
    return results | {"popularity": popularity | {"meaning": POPULARITY}}


def _overlap(links: Links, known: Links) -> int:
    """Return how many links are also in ``known``."""
    return int((links.matrix() > 0).multiply(known.matrix() > 0).sum()) // (1 + links.within)


def _parse(fitted: Fitted, links: Any) -> dict[Pair, Links]:
    """Return held-out links as positions of the training entities.

    Raise InputError if a view pair was not observed in training, or if entities are not those of
    the training.
    """
    if isinstance(links, MultiViewGraph):
        for view, ids in links.ids.items():
            fitted.schema_of(view)
            if not np.array_equal(ids, fitted.ids[view]):
                raise InputError(
                    f"evaluate: view {view!r}: expected the entities of the training, got other "
                    "ids; pass links as {(view, view): (ids, ids, weights)}"
                )
        links = links.links
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
        shape = (len(fitted.ids[a]), len(fitted.ids[b]))
        if isinstance(table, Links):
            if table.shape != shape:
                raise InputError(
                    f"evaluate: links ({a!r}, {b!r}): expected shape {shape}, got {table.shape}"
                )
            found[a, b] = table
            continue
        if isinstance(table, tuple) and len(table) in (2, 3):
            ends = (known_positions(v, fitted.ids[v], e) for v, e in zip(pair, table, strict=False))
            table = (*ends, *table[2:])
        found[a, b] = parse_links(f"links ({a!r}, {b!r})", table, shape, a == b, None)
    return found
