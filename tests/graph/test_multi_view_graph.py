"""MultiViewGraph validates its input, keeps it in canonical order, and is immutable."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pmvge import MultiViewGraph, PmvgeError
from pmvge.errors import GraphError, ParameterError

IMAGES = np.arange(12.0).reshape(4, 3)
TAGS = sparse.csr_array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])


def example() -> MultiViewGraph:
    """Return a graph with dense, sparse and featureless views, and a pair without links."""
    return MultiViewGraph(
        views={"user": 2, "image": IMAGES, "tag": TAGS},
        links={
            ("user", "user"): ([0], [1], [3.0]),
            ("image", "tag"): ([0, 3, 3], [0, 0, 2], [1.0, 2.0, 0.5]),
            ("user", "image"): ([], []),
        },
        ids={"tag": ["sky", "sea", "sun"]},
    )


def arrays(graph: MultiViewGraph):
    """Yield every array of a graph with its name."""
    for view, ids in graph.ids.items():
        yield ("ids", view), ids
    for view, X in graph.views.items():
        if isinstance(X, np.ndarray):
            yield ("features", view), X
        elif X is not None:
            yield from (
                (("features", view, n), getattr(X, n)) for n in ("data", "indices", "indptr")
            )
    for pair, links in graph.links.items():
        yield from (((pair, n), getattr(links, n)) for n in ("rows", "cols", "weights"))


def assert_same(one: MultiViewGraph, other: MultiViewGraph) -> None:
    """Assert that graphs are equal to the last bit, with views and pairs in the same order."""
    assert one.view_names == other.view_names
    assert list(one.links) == list(other.links)
    assert dict(one.sizes) == dict(other.sizes)
    assert one.given_ids == other.given_ids
    left, right = dict(arrays(one)), dict(arrays(other))
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype, name
        assert array.tobytes() == right[name].tobytes(), name


def two_views(a=2, b=3, links=None, ids=None, **options) -> MultiViewGraph:
    table = {("a", "b"): ([0], [1])} if links is None else links
    return MultiViewGraph({"a": a, "b": b}, table, ids, **options)


# -- contents ---------------------------------------------------------------------------------


def test_contents() -> None:
    graph = example()
    assert graph.view_names == ("image", "tag", "user")
    assert dict(graph.sizes) == {"image": 4, "tag": 3, "user": 2}
    assert graph.views["user"] is None
    assert {view: graph.input_shape(view) for view in graph.sizes} == {
        "image": (3,),
        "tag": (2,),
        "user": None,
    }
    assert graph.ids["tag"].tolist() == ["sky", "sea", "sun"]
    assert graph.ids["image"].tolist() == [0, 1, 2, 3]
    assert graph.given_ids == {"tag"}
    assert (graph.n_nodes, graph.n_links, graph.total_weight) == (9, 4, 6.5)
    assert graph.n_terms == 4 * 3 + 2 * 4 + 1


def test_repr_shows_views_dimensions_links_and_density() -> None:
    graph = MultiViewGraph(
        {"image": np.ones((1200, 8, 8)), "tag": TAGS, "user": 1},
        {
            ("image", "tag"): ([0, 0], [0, 1]),
            ("tag", "tag"): ([0], [1], [2.5]),
            ("user", "user"): ([], []),
        },
    )
    assert repr(graph).splitlines() == [
        "MultiViewGraph: 3 views, 1,204 entities, 3 links",
        "  image        1,200 entities   8 x 8 features, dense",
        "  tag              3 entities   2 features, sparse, 2 entries",
        "  user             1 entities   featureless",
        "  image - tag      2 links      weight 2, density 0.000556",
        "  tag - tag        1 links      weight 2.5, density 0.333",
        "  user - user      0 links      weight 0, density 0",
    ]


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        (np.ones((2, 3), np.float32), (3,)),
        (np.ones((2, 5, 4, 3)), (5, 4, 3)),
        (np.ones((2, 7), np.int64), (7,)),
        (sparse.lil_matrix((2, 3)), (3,)),
        (torch.ones(2, 3, dtype=torch.bfloat16), (3,)),
        (torch.ones(2, 3, dtype=torch.int64), (3,)),
        (pd.DataFrame({"p": [1, 2], "q": [0.5, 1.0]}), (2,)),
        ([[1, 2], [3, 4]], (2,)),
        (2, None),
        (np.int64(2), None),
    ],
)
def test_views_of_every_kind(rows, shape) -> None:
    graph = two_views(a=rows)
    assert graph.sizes["a"] == 2
    assert graph.input_shape("a") == shape


def test_a_memory_map_is_not_copied(tmp_path) -> None:
    X = np.memmap(tmp_path / "X", np.float32, "w+", shape=(4, 2))
    X[:] = np.arange(8).reshape(4, 2)
    graph = two_views(a=X)
    assert np.shares_memory(graph.views["a"], X)
    part = graph.subgraph({"a": [3, 1]})
    assert part.views["a"].tolist() == [[6, 7], [2, 3]]
    X[1] = 0  # the caller can still write to the map


def test_a_pair_observed_as_all_zeros_is_kept_next_to_one_with_links() -> None:
    graph = two_views(links={("a", "b"): np.zeros((2, 3)), ("b", "b"): ([0], [1])})
    assert list(graph.links) == [("a", "b"), ("b", "b")]
    assert len(graph.links["a", "b"]) == 0
    assert graph.n_terms == 2 * 3 + 3


def test_symmetrize_reaches_the_tables_within_views() -> None:
    mixed = [0, 1, 1], [1, 0, 2], [2.0, 3.0, 4.0]
    totals = {
        how: two_views(links={("b", "b"): mixed}, symmetrize=how).total_weight
        for how in ("sum", "max")
    }
    assert totals == {"sum": 9.0, "max": 7.0}


# -- canonical order --------------------------------------------------------------------------


@st.composite
def link_tables(draw):
    """Draw tables of four view pairs on three views of three entities, with repeats."""
    entry = st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.1, 0.2, 0.3, 7.0]))
    rows = st.lists(entry, min_size=1, max_size=12)
    tables = {pair: draw(rows) for pair in (("a", "b"), ("c", "a"), ("b", "c"))}
    upper = st.sampled_from([(0, 1), (0, 2), (1, 2)])
    pairs = draw(st.lists(st.tuples(upper, entry), max_size=9))
    return tables | {("b", "b"): [(i, j, w) for (i, j), (_, _, w) in pairs]}


@given(link_tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_keys_does_not_change_a_bit(tables, random) -> None:
    views = {"a": np.eye(3), "b": 3, "c": sparse.csr_array(np.eye(3))}
    ids = {"b": ["x", "y", "z"], "c": [7, 8, 9]}

    def build(order):
        shuffled = {pair: order(rows) for pair, rows in order(tables.items())}
        return MultiViewGraph(
            dict(order(views.items())),
            {
                pair: tuple(map(list, zip(*t, strict=True))) or ([], [])
                for pair, t in shuffled.items()
            },
            dict(order(ids.items())),
        )

    assert_same(build(list), build(lambda items: random.sample(list(items), len(items))))


# -- immutability -----------------------------------------------------------------------------


DERIVED = {
    "given": lambda graph: graph,
    "subgraph": lambda graph: graph.subgraph({"image": [3, 0], "tag": [2, 0], "user": [1, 0]}),
    "with_links": lambda graph: graph.with_links(graph.links),
    "with_tables": lambda graph: graph.with_tables({}),
    "copy": copy.copy,
    "pickled": lambda graph: pickle.loads(pickle.dumps(graph)),
    "deep copy": copy.deepcopy,
}


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_no_array_of_a_graph_can_be_written(derive) -> None:
    named = list(arrays(derive(example())))
    assert len(named) == 3 + 1 + 3 + 3 * 3
    assert [name for name, array in named if array.flags.writeable] == []


@pytest.mark.parametrize("name", ["sizes", "views", "ids", "links"])
def test_no_mapping_of_a_graph_can_be_changed(name) -> None:
    mapping = getattr(example(), name)
    with pytest.raises(TypeError, match="does not support item assignment"):
        mapping[next(iter(mapping))] = None


def test_arrays_of_the_caller_stay_writable() -> None:
    X, names = IMAGES.copy(), np.array(["x", "y", "z", "t"])
    W = np.array([1.0])
    MultiViewGraph({"a": X}, {("a", "a"): ([0], [1], W)}, {"a": names})
    X[0], W[0], names[0] = 0, 0, "s"


@pytest.mark.parametrize("ids", [None, {}, {"a": None, "b": None}])
def test_default_ids_are_not_given(ids) -> None:
    assert two_views(ids=ids).given_ids == frozenset()


def test_ids_that_equal_the_default_ones_are_given() -> None:
    assert two_views(ids={"b": range(3)}).given_ids == {"b"}


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_derived_graphs_record_which_ids_were_given(derive) -> None:
    assert derive(example()).given_ids == {"tag"}


@pytest.mark.parametrize("kind", ["with_links", "pickled", "deep copy"])
def test_copies_are_equal_to_the_last_bit(kind) -> None:
    assert_same(example(), DERIVED[kind](example()))


# -- invalid input ----------------------------------------------------------------------------

ONE = np.ones((2, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"views": {}}, "^views: expected {name: rows} with at least one view"),
        ({"views": [ONE]}, "views: expected {name: rows} with at least one view"),
        ({"views": {1: ONE}}, "views: names must be non-empty strings, got 1"),
        ({"views": {"": ONE}}, "views: names must be non-empty strings, got ''"),
        ({"views": {"a": 0, "b": 2}}, "view 'a': expected at least one entity, got 0"),
        ({"views": {"a": -3, "b": 2}}, "view 'a': expected at least one entity, got -3"),
        ({"views": {"a": ONE[:0], "b": 2}}, "view 'a': expected at least one entity, got 0"),
        ({"views": {"a": sparse.csr_array((0, 2))}}, "view 'a': expected at least one entity"),
        ({"views": {"a": True}}, "view 'a': expected an array of shape"),
        ({"views": {"a": ONE * np.nan, "b": 2}}, "view 'a': expected finite .*got 2 .*nan at"),
        ({"links": [ONE]}, r"links: expected {\(view, view\): table}, got list"),
        ({"links": {"ab": ONE}}, r"links: expected keys \(view, view\), got 'ab'"),
        ({"links": {("a",): ONE}}, r"links: expected keys \(view, view\), got \('a',\)"),
        ({"links": {("a", "c"): ONE}}, r"\('a', 'c'\): unknown view 'c': expected one of 'a', 'b'"),
        (
            {"links": {("a", "b"): ([0], [1]), ("b", "a"): ([0], [1])}},
            r"\('a', 'b'\) and \('b', 'a'\) are the same view pair; give one table",
        ),
        ({"links": {("b", "a"): ([0], [5])}}, r"links \('b', 'a'\): column .*0..1, got 1 .*is 5"),
        ({"links": {("b", "b"): ([1], [1])}}, r"links \('b', 'b'\): .*linked to itself"),
        ({"links": {("b", "b"): ([0, 1], [1, 0], [1, 2])}}, r"\('b', 'b'\): .*symmetrize='sum'"),
        ({"links": {("a", "b"): ([0], [1], [np.inf])}}, r"links \('a', 'b'\): .*finite weights"),
        ({"links": {}}, "^links: expected at least one link of positive weight, got none$"),
        ({"links": {("a", "b"): np.zeros((2, 2))}}, "at least one link of positive weight, got no"),
        ({"ids": {"c": [1]}}, "ids: unknown view 'c': expected one of 'a', 'b'"),
        ({"ids": np.array([1, 2])}, "ids: expected {view: ids}, got ndarray"),
        ({"ids": {"b": [1]}}, "view 'b': ids: expected 2 ids, one per row, got 1"),
        ({"ids": {"b": ["x", "x"]}}, "view 'b': ids: expected distinct ids, got 1 repeats"),
        ({"ids": {"b": ["x", 1]}}, "view 'b': ids: .*got int, str"),
    ],
)
def test_bad_input_raises_a_graph_error_that_says_where(arguments, message) -> None:
    good = {"views": {"a": ONE, "b": 2}, "links": {("a", "b"): ([0], [1])}}
    with pytest.raises(GraphError, match=message) as caught:
        MultiViewGraph(**good | arguments)
    assert isinstance(caught.value, PmvgeError)


@pytest.mark.parametrize("value", ["mean", True, 1])
def test_an_unknown_symmetrize_is_rejected(value) -> None:
    with pytest.raises(ParameterError, match=f"unknown symmetrize {value!r}.*'sum', 'max'"):
        two_views(symmetrize=value)


def test_with_links_takes_what_the_constructor_takes():
    W = np.array([[0, 2.0], [1.0, 0], [3.0, 0]])
    graph = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): ([0], [0])}, ids={"a": ["x", "y", "z"]})
    expected = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): W}).links["a", "b"]
    tables = (sparse.csr_array(W), sparse.coo_matrix(W), W, (*np.nonzero(W), W[np.nonzero(W)]))
    for table in tables:
        other = graph.with_links({("a", "b"): table})
        assert other.ids["a"].tolist() == ["x", "y", "z"]
        np.testing.assert_array_equal(other.links["a", "b"].matrix().toarray(), W)
        assert other.links["a", "b"].total == expected.total
    mixed = graph.with_links({("a", "b"): expected, ("a", "a"): sparse.csr_array(np.eye(3, k=1))})
    assert mixed.links["a", "b"] is expected
    assert mixed.links["a", "a"].within


@pytest.mark.parametrize(
    ("links", "says"),
    [
        (sparse.eye_array(3), r"with_links: expected {\(view, view\): links}, got dia_array"),
        ({("a", "b"): sparse.eye_array(3)}, r"links \('a', 'b'\): expected a 3 x 2 matrix.*3 x 3"),
        ({("a", "c"): sparse.eye_array(3)}, "unknown view 'c'"),
        ({("a", "b"): "links.csv"}, r"links \('a', 'b'\): expected a scipy sparse matrix or"),
    ],
)
def test_with_links_says_what_it_expects(links, says):
    graph = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): ([0], [0])})
    with pytest.raises(GraphError, match=says):
        graph.with_links(links)


@pytest.mark.parametrize(
    ("pair", "other", "says"),
    [
        (("zz", "b"), ("a", "b"), r"links \('zz', 'b'\): unknown view 'zz'"),
        (("b", "a"), ("a", "b"), r"links \('b', 'a'\): expected 2 x 3 .*got 3 x 2"),
        (("a", "a"), ("a", "c"), r"links \('a', 'a'\): expected 3 x 3 .*links within a view"),
        (("a", "c"), ("a", "a"), r"links \('a', 'c'\): expected 3 x 3 .*between two views"),
    ],
)
def test_with_links_refuses_links_of_another_pair(pair, other, says):
    tables = {("a", "b"): ([0], [0]), ("a", "a"): ([0], [1]), ("a", "c"): ([0], [1])}
    graph = MultiViewGraph({"a": 3, "b": 2, "c": 3}, tables)
    with pytest.raises(GraphError, match=says):
        graph.with_links({pair: graph.links[other]})
    with pytest.raises(GraphError, match="are the same view pair"):
        graph.with_links(
            {("a", "b"): graph.links["a", "b"], ("b", "a"): graph.links["a", "b"].transposed()}
        )


def test_with_links_keeps_the_order_of_view_pairs():
    graph = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): ([0], [0]), ("a", "a"): ([0], [1])})
    turned = dict(reversed(graph.links.items()))
    assert list(graph.with_links(turned).links) == list(turned) != list(graph.links)


@pytest.mark.parametrize(
    "links",
    [
        {("a,b", "c"): ([0], [0]), ("a", "b,c"): ([0], [0])},
        {("a,b", "c"): ([0], [0]), ("b,c", "a"): ([0], [0])},  # "a,b,c" is one of them backwards
    ],
)
def test_view_pairs_with_the_same_text_are_refused(links):
    """Results have the keys "view,view", in which a comma of a name could be taken for another."""
    views = {"a,b": 2, "c": 2, "a": 2, "b,c": 2}
    with pytest.raises(GraphError, match=r"view pairs \('a,b', 'c'\) and .*: rename a view"):
        MultiViewGraph(views, links)
    graph = MultiViewGraph(views, {("a,b", "c"): ([0], [0]), ("a", "a"): ([0], [1])})
    assert [*graph.links] == [("a", "a"), ("a,b", "c")]
