"""Conversion of biom tables (counts of microbes, genes or metabolites in samples) to graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.graph import MultiViewGraph
from pmvge.interop.counts import Counts, graph_of_counts


def from_biom(
    tables: Any, *, sample: str = "sample", observation: str = "observation"
) -> MultiViewGraph:
    """Return the graph of one or several biom tables: samples linked to observations by counts.

    ``tables`` is a ``biom.Table``, whose observations are the view ``observation``, or ``{view:
    biom.Table}``, such as ``{"microbe": otus, "metabolite": lcms}``. Samples are one view, called
    ``sample``, and have the same id in all tables. Read a file with ``biom.load_table(path)``.
    Raise GraphError if a view is called ``sample``, or if a value is negative or not finite.

    Examples
    --------
    >>> import biom, numpy as np
    >>> from pmvge.interop import from_biom
    >>> table = biom.Table(np.array([[1, 0], [2, 3]]), ["otu1", "otu2"], ["a", "b"])
    >>> from_biom(table, observation="microbe")
    MultiViewGraph: 2 views, 4 entities, 3 links
      microbe               2 entities   featureless
      sample                2 entities   featureless
      sample - microbe      3 links      weight 6, density 0.75
    """
    given = tables if isinstance(tables, Mapping) else {observation: tables}
    return graph_of_counts(
        "from_biom", sample, {name: _counts(table) for name, table in given.items()}
    )


def _counts(table: Any) -> Counts:
    return Counts(
        list(map(str, table.ids(axis="sample"))),
        list(map(str, table.ids(axis="observation"))),
        table.matrix_data.T,
    )
