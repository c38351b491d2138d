"""Validation of the views and view pairs that a graph is built from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmvge.errors import GraphError, choose
from pmvge.graph.features import Features, check_features
from pmvge.graph.links import Pair, pair_key


def check_views(
    views: Mapping[str, Any],
) -> tuple[dict[str, int], dict[str, Features | None]]:
    """Return the sizes and the checked features of views, in the order of their names.

    Raise GraphError if a name, or the features of a view, are not valid.
    """
    if not isinstance(views, Mapping) or not views:
        got = "none" if isinstance(views, Mapping) else type(views).__name__
        raise GraphError(f"views: expected {{name: rows}} with at least one view, got {got}")
    for name in views:
        if not isinstance(name, str) or not name:
            raise GraphError(f"views: names must be non-empty strings, got {name!r}")
    sizes: dict[str, int] = {}
    features: dict[str, Features | None] = {}
    for name in sorted(views):
        rows, where = views[name], f"view {name!r}"
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            features[name], sizes[name] = None, int(rows)
        else:
            features[name] = X = check_features(where, rows)
            sizes[name] = int(X.shape[0])
        if sizes[name] < 1:
            raise GraphError(f"{where}: expected at least one entity, got {sizes[name]}")
    return sizes, features


def check_pairs(links: Mapping[Pair, Any], sizes: Mapping[str, int]) -> list[Pair]:
    """Return the keys of a mapping from view pairs, unchanged, in canonical order.

    Raise GraphError if a key is not a pair of known views, if two keys name the same pair, or if
    they have the same text in either order, as ("a,b", "c") and ("a", "b,c") do.
    """
    if not isinstance(links, Mapping):
        raise GraphError(f"links: expected {{(view, view): table}}, got {type(links).__name__}")
    seen: dict[Pair, Pair] = {}
    texts: dict[str, Pair] = {}
    for key in links:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise GraphError(f"links: expected keys (view, view), got {key!r}")
        for name in key:
            choose("view", name, sizes, f"links {key!r}", error=GraphError)
        unordered = min(key, key[::-1])
        if unordered in seen:
            raise GraphError(
                f"links: {seen[unordered]!r} and {key!r} are the same view pair; give one table"
            )
        seen[unordered] = key
        for text in {pair_key(key), pair_key(key[::-1])}:
            if text in texts:
                raise GraphError(
                    f"links: the view pairs {texts[text]!r} and {key!r} are both called {text!r}: "
                    "rename a view, without a comma"
                )
            texts[text] = key
    return [seen[unordered] for unordered in sorted(seen)]
