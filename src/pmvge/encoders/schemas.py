"""The shape of a view's rows, without the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmvge.graph import Features, MultiViewGraph


@dataclass(frozen=True)
class ViewSchema:
    """The number and shape of a view's rows."""

    n: int
    row_shape: tuple[int, ...] | None  # None: featureless
    sparse: bool

    def describe(self) -> str:
        """Return a short description of the features, such as "1433, sparse"."""
        if self.row_shape is None:
            return "none"
        return f"{' x '.join(map(str, self.row_shape))}{', sparse' if self.sparse else ''}"


def schemas_of(graph: MultiViewGraph) -> dict[str, ViewSchema]:
    """Return the schema of every view."""
    return {
        view: ViewSchema(n, graph.input_shape(view), not is_dense(graph.views[view]))
        for view, n in graph.sizes.items()
    }


def sparse_within(graph: MultiViewGraph) -> frozenset[str]:
    """Return the views that have sparse features and are linked to themselves.

    Both ends of such a link have the same encoder, which overfits to rare columns: the defaults of
    dropout and weight decay differ for them.
    """
    return frozenset(a for a, b in graph.links if a == b and not is_dense(graph.views[a]))


def is_dense(X: Features | None) -> bool:
    """Return whether a view has no sparse features."""
    return X is None or isinstance(X, np.ndarray)
