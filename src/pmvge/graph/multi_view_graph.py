"""MultiViewGraph: entities of several kinds, their features and their links."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import GraphError, choose
from pmvge.graph.features import Features, freeze, row_shape
from pmvge.graph.ids import Ids, check_ids
from pmvge.graph.link_tables import Symmetrize, parse_links
from pmvge.graph.links import Links, Pair, canonical
from pmvge.graph.validation import check_pairs, check_views

if TYPE_CHECKING:
    import networkx


class MultiViewGraph:
    r"""Views :math:`d = 1..D`, each with rows :math:`x_i`, joined by links :math:`w_{ij} \ge 0`.

    A graph is validated when it is made, and immutable. Views and view pairs are sorted by name,
    and links by position: results do not depend on the order in which they are given.

    Parameters
    ----------
    views
        ``{name: rows}``. Rows are a dense array ``(n, ...)`` (numpy, memory map, torch tensor), a
        scipy sparse matrix ``(n, p)``, or an int ``n`` for a view without features.
    links
        ``{(name, name): table}``. A table is a scipy sparse matrix, or ``(rows, cols, weights)``
        with integer positions (``(rows, cols)`` if all weights are 1); repeated entries add up.
        The keys are the observed view pairs, the set :math:`\mathcal D`: the links of any other
        pair are *missing*, which is not the same as a table of zeros. Links within a view are
        undirected: a symmetric table, or one that has each pair in one order only, is accepted.
    ids
        ``{name: ids}``, distinct integers or strings. Ids that are given identify entities in
        later data; :attr:`given_ids` names their views. A view without them has the default ids
        ``0..n-1``, which number its rows and never identify an entity: row 0 of another table need
        not be the same entity.
    symmetrize
        ``"sum"`` or ``"max"``: how to merge the two orders of a pair within a view. Required for
        a table that is neither symmetric nor has each pair in one order only. "sum" doubles the
        weights of a symmetric table.

    Examples
    --------
    >>> import numpy as np
    >>> from pmvge import MultiViewGraph
    >>> graph = MultiViewGraph(
    ...     views={"image": np.eye(3), "tag": 2},
    ...     links={("image", "tag"): ([0, 1, 2], [0, 0, 1], [1.0, 2.0, 1.0])},
    ... )
    >>> graph
    MultiViewGraph: 2 views, 5 entities, 3 links
      image            3 entities   3 features, dense
      tag              2 entities   featureless
      image - tag      3 links      weight 4, density 0.5
    """

    def __init__(
        self,
        views: Mapping[str, Any],
        links: Mapping[Pair, Any],
        ids: Mapping[str, Any] | None = None,
        *,
        symmetrize: Symmetrize | None = None,
    ) -> None:
        if symmetrize is not None:
            choose("symmetrize", symmetrize, ("sum", "max"))
        self._sizes, self._views = check_views(views)
        given = {} if ids is None else ids
        if not isinstance(given, Mapping):
            raise GraphError(f"ids: expected {{view: ids}}, got {type(given).__name__}")
        for name in given:
            choose("view", name, self._sizes, "ids", error=GraphError)
        self._ids = {
            name: check_ids(f"view {name!r}: ids", given.get(name), n)
            for name, n in self._sizes.items()
        }
        self._given_ids = frozenset(name for name in given if given[name] is not None)
        self._links: dict[Pair, Links] = {}
        for pair in check_pairs(links, self._sizes):
            a, b = pair
            where = f"links ({a!r}, {b!r})"
            shape = (self._sizes[a], self._sizes[b])
            self._links[pair] = parse_links(where, links[pair], shape, a == b, symmetrize)
        if not any(map(len, self._links.values())):
            raise GraphError("links: expected at least one link of positive weight, got none")
        self._tables: Mapping[str, Any] | None = None

    @classmethod
    def trusted(
        cls,
        sizes: Mapping[str, int],
        views: Mapping[str, Features | None],
        ids: Mapping[str, Ids],
        links: Mapping[Pair, Links],
        tables: Mapping[str, Any] | None = None,
        *,
        given_ids: Collection[str],
    ) -> MultiViewGraph:
        """Return a graph of parts that are known to be valid; it may have no links."""
        graph = cls.__new__(cls)
        graph._sizes, graph._links, graph._tables = dict(sizes), dict(links), tables
        graph._views, graph._ids = dict(views), dict(ids)
        graph._given_ids = frozenset(given_ids)
        graph._freeze()
        return graph

    def _freeze(self) -> None:
        self._views = {v: X if X is None else freeze(X) for v, X in self._views.items()}
        self._ids = {v: freeze(ids) for v, ids in self._ids.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._freeze()  # numpy arrays are writable after copy and pickle

    # -- contents ---------------------------------------------------------------------------

    @property
    def view_names(self) -> tuple[str, ...]:
        """Names of the views, sorted."""
        return tuple(self._sizes)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of entities of each view."""
        return MappingProxyType(self._sizes)

    @property
    def views(self) -> Mapping[str, Features | None]:
        """Features of each view; None for a featureless one."""
        return MappingProxyType(self._views)

    @property
    def ids(self) -> Mapping[str, Ids]:
        """Ids of the entities of each view."""
        return MappingProxyType(self._ids)

    @property
    def given_ids(self) -> frozenset[str]:
        """Views whose ids were given; the others have default ids, which identify no entity."""
        return self._given_ids

    @property
    def links(self) -> Mapping[Pair, Links]:
        r"""Links of each observed view pair; the keys are the set :math:`\mathcal D`, as given."""
        return MappingProxyType(self._links)

    @property
    def tables(self) -> Mapping[str, Any] | None:
        """How the features were computed from raw tables, as plain data; None without tables."""
        return self._tables

    @property
    def unscaled_views(self) -> frozenset[str]:
        """Dense views whose tables have ``standardize = false``: encoders do not scale them."""
        views = (self._tables or {}).get("views", {})
        return frozenset(
            name
            for name, table in views.items()
            if not table.get("standardize", True) and isinstance(self._views.get(name), np.ndarray)
        )

    @property
    def n_nodes(self) -> int:
        """Number of entities in all views."""
        return sum(self._sizes.values())

    @property
    def n_links(self) -> int:
        """Number of links in all view pairs."""
        return sum(map(len, self._links.values()))

    @property
    def n_terms(self) -> int:
        r"""Number of terms of the likelihood, :math:`|\mathcal I_n|`."""
        return sum(links.n_terms for links in self._links.values())

    @property
    def total_weight(self) -> float:
        """Sum of all weights."""
        return sum(links.total for links in self._links.values())

    def input_shape(self, view: str) -> tuple[int, ...] | None:
        """Return the shape of one row of a view; None for a featureless one."""
        features = self._views[view]
        return None if features is None else row_shape(features)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        # numpy would make an array of one object of it, which scikit-learn rejects without a hint.
        raise GraphError(
            "expected an array, got a MultiViewGraph; for scikit-learn's cross-validation pass "
            "pmvge.tuning.LinkSamples(graph)"
        )

    def __repr__(self) -> str:
        return "\n  ".join(self._describe())

    def _describe(self) -> Iterator[str]:
        yield (
            f"MultiViewGraph: {len(self._sizes)} view{'s' if len(self._sizes) > 1 else ''}, "
            f"{self.n_nodes:,} entities, "
            f"{self.n_links:,} links"
        )
        labels = {pair: f"{pair[0]} - {pair[1]}" for pair in self._links}
        width = max(map(len, [*labels.values(), *self._sizes]))
        for name, n in self._sizes.items():
            yield f"{name:{width}} {n:>6,} entities   {self._describe_view(name)}"
        for pair, links in self._links.items():
            density = len(links) / links.n_terms if links.n_terms else 0.0
            yield (
                f"{labels[pair]:{width}} {len(links):>6,} links      "
                f"weight {links.total:,.6g}, density {density:.3g}"
            )

    def _describe_view(self, name: str) -> str:
        features = self._views[name]
        if features is None:
            return "featureless"
        kind = "dense" if isinstance(features, np.ndarray) else f"sparse, {features.nnz:,} entries"
        return f"{' x '.join(map(str, row_shape(features)))} features, {kind}"

    # -- derived graphs ---------------------------------------------------------------------

    def with_links(self, links: Mapping[Pair, Any]) -> MultiViewGraph:
        """Return a graph of the same views with other links; their keys are its observed pairs.

        Tables are :class:`Links`, or what the constructor takes: a scipy sparse matrix, a dense
        one, or ``(rows, cols, weights)``. The order of the view pairs is kept. Raise GraphError if
        they are not valid, or if Links are not those of entities of these views.
        """
        if not isinstance(links, Mapping):
            raise GraphError(
                f"with_links: expected {{(view, view): links}}, got {type(links).__name__}"
            )
        check_pairs(links, self._sizes)
        parsed = {}
        for (a, b), table in links.items():
            where, shape = f"links ({a!r}, {b!r})", (self._sizes[a], self._sizes[b])
            if not isinstance(table, Links):
                table = parse_links(where, table, shape, a == b, None)
            elif (table.shape, table.within) != (shape, a == b):
                raise GraphError(
                    f"{where}: expected {_describe_ends(shape, a == b)}, got "
                    f"{_describe_ends(table.shape, table.within)}"
                )
            parsed[a, b] = table
        return self._replaced(links=parsed)

    def with_tables(self, tables: Mapping[str, Any]) -> MultiViewGraph:
        """Return the same graph with other :attr:`tables`."""
        return self._replaced(tables=tables)

    def subgraph(self, nodes: Mapping[str, Any]) -> MultiViewGraph:
        """Return the graph of some entities of each view, and the links among them.

        ``nodes`` gives positions or a boolean mask for each view; other views are kept in full.
        Observed view pairs stay observed, even if none of their links is left. Raise GraphError if
        a view is unknown, or if positions are not valid.
        """
        if not isinstance(nodes, Mapping):
            raise GraphError(f"subgraph: expected {{view: rows}}, got {type(nodes).__name__}")
        rows = {name: self._rows(name, wanted) for name, wanted in nodes.items()}
        sizes = {name: len(rows[name]) if name in rows else n for name, n in self._sizes.items()}
        views = {
            name: X[rows[name]] if X is not None and name in rows else X
            for name, X in self._views.items()
        }
        ids = {name: i[rows[name]] if name in rows else i for name, i in self._ids.items()}
        position = {name: np.full(n, -1) for name, n in self._sizes.items()}
        for name, new in position.items():
            new[rows.get(name, slice(None))] = np.arange(sizes[name])
        links = {}
        for (a, b), old in self._links.items():
            i, j = position[a][old.rows], position[b][old.cols]
            kept = (i >= 0) & (j >= 0)
            i, j, w = i[kept], j[kept], old.weights[kept]
            if old.within:
                i, j = np.minimum(i, j), np.maximum(i, j)
            links[a, b] = canonical(i, j, w, (sizes[a], sizes[b]), old.within)
        return self._replaced(sizes=sizes, views=views, ids=ids, links=links)

    def _replaced(self, **parts: Any) -> MultiViewGraph:
        """Return a graph of the same parts, except for those in ``parts``."""
        own: dict[str, Any] = {
            "sizes": self._sizes,
            "views": self._views,
            "ids": self._ids,
            "links": self._links,
            "tables": self._tables,
            "given_ids": self._given_ids,
        }
        return self.trusted(**own | parts)

    def _rows(self, name: str, wanted: Any) -> NDArray[np.int64]:
        choose("view", name, self._sizes, "subgraph", error=GraphError)
        n, where = self._sizes[name], f"subgraph: view {name!r}"
        index = np.asarray(wanted)
        if index.dtype == bool:
            if index.shape != (n,):
                raise GraphError(f"{where}: expected a mask of {n} values, got shape {index.shape}")
            index = np.flatnonzero(index)
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
            raise GraphError(
                f"{where}: expected a non-empty list of positions, or a mask, got "
                f"{index.dtype} values of shape {index.shape}"
            )
        if index.min() < 0 or index.max() >= n:
            raise GraphError(
                f"{where}: positions must lie in 0..{n - 1}, got {index.min()} to {index.max()}"
            )
        if len(np.unique(index)) != len(index):
            raise GraphError(f"{where}: expected distinct positions, got {len(index)} with repeats")
        return index.astype(np.int64)

    def to_networkx(self) -> networkx.Graph:
        """Return the graph in networkx: see :func:`pmvge.interop.to_networkx`."""
        from pmvge.interop import to_networkx

        return to_networkx(self)

    @classmethod
    def from_networkx(
        cls,
        network: networkx.Graph,
        *,
        view: str | None = "view",
        features: str | None = "x",
        id: str | None = "id",
        weight: str | None = "weight",
        pairs: list[Pair] | None = None,
    ) -> MultiViewGraph:
        """Return a graph from an undirected networkx graph.

        The parameters name the attributes to read: see :func:`pmvge.interop.from_networkx`.
        """
        from pmvge.interop import from_networkx

        return from_networkx(
            network, view=view, features=features, id=id, weight=weight, pairs=pairs
        )


def _describe_ends(shape: tuple[int, int], within: bool) -> str:
    kind = "links within a view" if within else "links between two views"
    return f"{shape[0]} x {shape[1]} {kind}"
