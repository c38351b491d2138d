"""Notes on the weights of link tables: heavy tails, and view pairs with nearly all weight."""

from __future__ import annotations

import numpy as np

from pmvge.graph import Links, MultiViewGraph, dominant_pair, has_heavy_tail, pair_key
from pmvge.tables.project import LinkTable, Project

TOP = 100  # the heaviest of every TOP links


class WeightWarning(UserWarning):
    """A few links, or one link table, hold nearly all weight."""


def weight_notes(project: Project, graph: MultiViewGraph, *, balanced: bool = False) -> list[str]:
    """Return notes on weights that few links or one view pair dominate, with what to do.

    With ``balanced``, view pairs have weights already.
    """
    notes = [
        _describe_tail(pair_key(pair), project.links[pair], links)
        for pair, links in graph.links.items()
        if pair in project.links and has_heavy_tail(links)
    ]
    largest = None if balanced else dominant_pair(graph.links)
    if largest is not None:
        total = graph.total_weight
        share = graph.links[largest].total / total
        others = ", ".join(
            f"{pair_key(pair)} {links.total / total:.2%}"
            for pair, links in graph.links.items()
            if pair != largest
        )
        notes.append(
            f"links {pair_key(largest)} have {share:.2%} of all weight (others: {others}), so "
            'training hardly depends on the others; pair_weights = "balanced" in [model] lets them '
            "count more"
        )
    return notes


def _describe_tail(name: str, table: LinkTable, links: Links) -> str:
    weights = np.sort(links.weights)
    top = weights[-max(1, len(weights) // TOP) :].sum() / links.total
    column = "" if table.weight is None else f'column = "{table.weight}", '
    return (
        f"links {name}: weights are up to {weights[-1]:,.6g}, with a median of "
        f"{float(np.median(weights)):,.6g}: {1 / TOP:.0%} of the links have {top:.0%} of the "
        f'weight and dominate the training; weight = {{ {column}transform = "log1p" }} '
        "counts log(1 + w)"
    )
