"""Compare joined link tables with a Python loop and with pandas."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmvge.errors import GraphError, TableError
from pmvge.tables import DroppedRows, LinkTable, Project, ViewTable, graph_from_frames, read_tables

USERS, ITEMS = ["u1", "u2", "u3"], [10, 20, 30]
AGGREGATES = ("sum", "count", "max")


def read(links, pair=("u", "i"), **options):
    views = {"u": ViewTable({"id": USERS}, "id", {}), "i": ViewTable({"id": ITEMS}, "id", {})}
    table = links if isinstance(links, LinkTable) else LinkTable(links, ("a", "b"), **options)
    return read_tables(Project(views, {pair: table}))


def frame(rows) -> pd.DataFrame:
    a, b, w = ([row[at] for row in rows] for at in range(3))
    return pd.DataFrame(
        {"a": pd.Series(a, dtype=object), "b": pd.Series(b, dtype="Int64"), "w": pd.Series(w)}
    ).astype({"a": "string", "w": "float64"})


def by_hand(rows, aggregate, left, right, within):
    """Return the expected links and dropped rows, computed row by row."""
    values, dropped = defaultdict(list), Counter()
    for a, b, w in rows:
        if a is None or b is None:
            dropped["null id"] += 1
        elif a not in left or b not in right:
            dropped["unknown id"] += 1
        elif aggregate != "count" and w is None:
            dropped["no weight"] += 1
        elif aggregate != "count" and w == 0:
            dropped["zero weight"] += 1
        elif within and a == b:
            dropped["self-link"] += 1
        else:
            values[a, b].append(w)
    total = {"sum": lambda w: sum(sorted(w)), "count": len, "max": max}[aggregate]
    return {pair: float(total(w)) for pair, w in values.items()}, dict(dropped)


def entries(graph, pair):
    links, (a, b) = graph.links[pair], pair
    left, right = graph.ids[a][links.rows], graph.ids[b][links.cols]
    return dict(
        zip(zip(left.tolist(), right.tolist(), strict=True), links.weights.tolist(), strict=True)
    )


ROWS = st.lists(
    st.tuples(
        st.sampled_from([*USERS, None, "unknown", "u1 "]),
        st.sampled_from([*ITEMS, None, 99]),
        st.sampled_from([0.1, 0.2, 0.3, 7.0, 0.0, None]),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(ROWS, st.sampled_from(AGGREGATES), st.randoms(use_true_random=False))
def test_between_views(rows, aggregate, random) -> None:
    rows = [("u1", 10, 1.0), *rows]
    wanted, dropped = by_hand(rows, aggregate, USERS, ITEMS, False)
    for _ in range(2):
        tables = read(frame(rows), weight="w", aggregate=aggregate)
        assert entries(tables.graph, ("u", "i")) == wanted  # bit for bit, in any row order
        assert tables.joined["u", "i"].dropped == dropped
        assert tables.joined["u", "i"].rows == len(rows)
        random.shuffle(rows)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*ITEMS, None, 99]),
            st.sampled_from([*ITEMS, None, 99]),
            st.sampled_from([0.1, 0.2, 0.3, 7.0, 0.0, None]),
        ),
        max_size=20,
    ),
    st.sampled_from(AGGREGATES),
    st.sampled_from(["sum", "max"]),
)
def test_within_a_view(rows, aggregate, symmetrize) -> None:
    rows = [(10, 20, 1.0), *rows]
    directed, dropped = by_hand(rows, aggregate, ITEMS, ITEMS, True)
    wanted = defaultdict(list)
    for (a, b), w in directed.items():
        wanted[min(a, b), max(a, b)].append(w)
    merge = {"sum": sum, "max": max}[symmetrize]
    links = pd.DataFrame(rows, columns=["a", "b", "w"]).astype(
        {"a": "Int64", "b": "Int64", "w": "float64"}
    )
    tables = read(links, ("i", "i"), weight="w", aggregate=aggregate, symmetrize=symmetrize)
    assert entries(tables.graph, ("i", "i")) == {pair: merge(w) for pair, w in wanted.items()}
    assert tables.joined["i", "i"].dropped == dropped


def test_against_a_merge_and_groupby_of_pandas() -> None:
    rng = np.random.default_rng(0)
    links = pd.DataFrame({"a": rng.choice([*USERS, "x"], 5000), "b": rng.choice([*ITEMS, 5], 5000)})
    links["w"] = rng.integers(0, 4, 5000)
    kept = links.merge(pd.DataFrame({"a": USERS})).merge(pd.DataFrame({"b": ITEMS}))
    for aggregate, weighted in (("sum", kept[kept.w > 0]), ("max", kept[kept.w > 0])):
        wanted = weighted.groupby(["a", "b"]).w.agg(aggregate).astype(float).to_dict()
        found = read(links, weight="w", aggregate=aggregate).graph
        assert entries(found, ("u", "i")) == wanted
    wanted = kept.groupby(["a", "b"]).size().astype(float).to_dict()
    assert entries(read(links, aggregate="count").graph, ("u", "i")) == wanted
    assert entries(read(links).graph, ("u", "i")) == wanted  # without weights rows are counted


def test_long_ids_are_truncated_in_messages() -> None:
    views = {"u": {"id": ["u" * 9999]}, "i": {"id": ITEMS}}
    links = LinkTable(frame([("z" * 9999, 10, 1.0)]), ("a", "b"), "w")
    with pytest.raises(TableError, match=r"ids like 'u{57}\.\.\.', the links have 'z{57}\.\.\.'"):
        graph_from_frames(views, {("u", "i"): links})


def test_one_warning_per_table_with_dropped_rows() -> None:
    rows = [("u1", 10, 1.0), ("z", 10, 1.0), (None, 10, 1.0), ("u1", 10, 0.0), ("u1", 77, 1.0)]
    links = LinkTable(frame(rows), ("a", "b"), "w")
    views = {"u": {"id": USERS}, "i": {"id": ITEMS}}
    with pytest.warns(DroppedRows) as caught:
        graph_from_frames(views, {("u", "i"): links})
    assert [str(warning.message) for warning in caught] == [
        "links u,i: MOST ROWS DROPPED, 4 of 5 rows dropped: 1 with an empty id, 2 with an unknown "
        "id, 1 with weight zero (not in 'u': z; not in 'i': 77)"
    ]
    assert caught[0].filename == __file__
    with pytest.raises(
        TableError, match=r"links u,i: MOST ROWS DROPPED, 4 of 5 rows dropped: .*strict allows none"
    ):
        graph_from_frames(views, {("u", "i"): links}, strict=True)


def test_strict_accepts_tables_without_dropped_rows() -> None:
    links = LinkTable(frame([("u1", 10, 1.0), ("u1", 10, 1.0)]), ("a", "b"), "w")
    graph = graph_from_frames({"u": {"id": USERS}, "i": None}, {("u", "i"): links}, strict=True)
    assert graph.total_weight == 2


def test_messages_with_multi_line_ids_are_one_line() -> None:
    rows = [("u1", 10, 1.0), ("a\nb", 10, 1.0)]
    assert "\n" not in str(read(frame(rows), weight="w").joined["u", "i"])
    with pytest.raises(TableError) as caught:
        read(frame(rows[1:]), weight="w")
    assert "\n" not in str(caught.value)


def test_both_orders_need_symmetrize() -> None:
    links = pd.DataFrame({"a": [10, 20], "b": [20, 10], "w": [1.0, 2.0]})
    with pytest.raises(
        TableError, match=r"links i,i .* 1 pairs occur in both orders.*set symmetrize to max or sum"
    ):
        read(links, ("i", "i"), weight="w")
    same = links.assign(w=2.0)
    assert read(same, ("i", "i"), weight="w").graph.total_weight == 2


def test_links_within_a_view_by_columns_with_other_names() -> None:
    links = pd.DataFrame({"from": [10, 20], "to": [20, 30]})
    graph = read(LinkTable(links, ("from", "to")), ("i", "i")).graph
    assert entries(graph, ("i", "i")) == {(10, 20): 1, (20, 30): 1}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["1", "two", "x"], "expected numbers, but 2 are not, such as 'two'"),
        ([1, -2, 3], "expected weights >= 0, but 1 are not, such as -2"),
        ([1, np.inf, 3], "expected finite weights, but 1 are not, such as inf"),
        ([True, None, "x"], "."),
    ],
)
def test_bad_weights(weights, message) -> None:
    links = {"a": ["u1"] * 3, "b": [10, 20, 30], "w": weights}
    with pytest.raises(TableError, match=message):
        read(links, weight="w")


def test_weights_as_text() -> None:
    links = {"a": ["u1"] * 4, "b": [10, 20, 30, 30], "w": ["1", " 2.5 ", "1e1", None]}
    tables = read(links, weight="w")
    assert tables.graph.total_weight == 13.5
    assert tables.joined["u", "i"].dropped == {"no weight": 1}


def test_weights_that_overflow() -> None:
    links = {"a": ["u1"] * 2, "b": [10, 10], "w": [1.7e308, 1.7e308]}
    with pytest.raises(GraphError):
        read(links, weight="w")


def test_unknown_ids_of_both_columns_are_reported_within_a_view():
    links = {"a": ["u1", "x9", "u2"], "b": ["u2", "u3", "y8"]}
    summary = read(links, pair=("u", "u")).joined["u", "u"]
    assert summary.unknown_ids == {"u": ("x9", "y8")}
    assert summary.dropped == {"unknown id": 2}
