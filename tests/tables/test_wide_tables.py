"""Tables with many columns: the number and size of statements grow linearly."""

import itertools

import numpy as np
import pandas as pd
import pytest

from pmvge.errors import TableError
from pmvge.tables import LinkTable, Project, Source, ViewTable, read_tables, rows_of
from pmvge.tables.columns import casts
from pmvge.tables.guessing import link_tables, profile
from pmvge.tables.guessing.profile import Profile
from pmvge.tables.sources.connection import connect, fetch_all, quote_ident
from pmvge.tables.sources.staging import stage

MANY = 450


@pytest.fixture
def statements(monkeypatch):
    """Record the statements of profiles and of checks."""
    found = []

    def recording(db, query):
        found.append(query)
        return fetch_all(db, query)

    monkeypatch.setattr(profile, "fetch_all", recording)
    monkeypatch.setattr(casts, "fetch_all", recording)
    return found


def test_numbers_are_not_searched_for_words(statements, tmp_path) -> None:
    frame = {"n": ["1", "2.5", None], "w": ["one", "two", "2"]}
    with connect(tmp_path) as db:
        types = stage(db, "raw", Source(frame=frame), tmp_path)
        found = profile.profile_columns(db, "raw", types)
    assert (found["n"].kind, found["n"].distinct, found["w"].kind) == ("number", 2, "word")
    (patterns,) = [query for query in statements if "regexp_matches" in query]
    assert 'regexp_matches(CAST("w"' in patterns
    assert 'regexp_matches(CAST("n"' not in patterns


def test_casts_are_checked_in_parts(statements, tmp_path) -> None:
    frame = {f"c{i}": ["1", "x" if i == MANY - 1 else "2"] for i in range(MANY)}
    with connect(tmp_path) as db:
        types = stage(db, "raw", Source(frame=frame), tmp_path)
        with pytest.raises(TableError, match=f"column 'c{MANY - 1}': expected numbers"):
            casts.check_casts(db, "here", "raw", dict.fromkeys(types, "numeric"), types)
    assert max(query.count("count_if") for query in statements) <= casts.PART


@pytest.mark.parametrize("named", [True, False])
def test_columns_in_parts_are_the_same_rows(named, tmp_path, monkeypatch) -> None:
    """Compare a view, and new rows of it, read with all columns at once and in parts of three."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "key": rng.permutation(50_000),  # more than one batch
            "one": rng.normal(size=50_000).round(3).astype(str),
            "kind": rng.choice(["a", "b", None], 50_000),
            "on": rng.choice(["true", "False"], 50_000),
            "far": rng.choice(["1e400", "nan", "-2"], 50_000),
            "day": rng.choice(["2020-01-01", "1999-12-31"], 50_000),
        }
    )
    kinds = {"one": "numeric", "kind": "category", "on": "numeric", "far": "numeric", "day": "date"}
    links = pd.DataFrame({"v": [3, 5], "w": ["x", "y"]})
    project = Project(
        {"v": ViewTable(frame, id="key", features=kinds, labels=("day",)), "w": ViewTable()},
        {("v", "w"): LinkTable(links, columns=("v", "w"))},
    )
    new = frame if named else frame.drop(columns="key")

    def read():
        found = read_tables(project)
        return found, rows_of(found.graph.tables, "v", new)

    whole, (ids, X) = read()
    names = []
    monkeypatch.setattr(casts, "PART", 3)
    monkeypatch.setattr(casts, "MAX_COLUMNS", 5)
    monkeypatch.setattr(casts, "quote_ident", lambda name: names.append(name) or quote_ident(name))
    parts, (ids_in_parts, X_in_parts) = read()
    assert any(name.startswith("part 3 of ") for name in names)
    np.testing.assert_array_equal(parts.graph.views["v"], whole.graph.views["v"])
    np.testing.assert_array_equal(parts.labels["v"]["day"], whole.labels["v"]["day"])
    np.testing.assert_array_equal(ids_in_parts, ids)
    np.testing.assert_array_equal(X_in_parts, X)
    order = frame["key"] if named else np.arange(50_000)
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(whole.graph.views["v"][frame["key"]], X)


def test_not_all_pairs_of_columns_are_compared(monkeypatch) -> None:
    compared = []

    def recording(items, length):
        compared.extend(items)
        return itertools.permutations(items, length)

    columns = {**{f"c{i}": "VARCHAR" for i in range(MANY)}, "b": "VARCHAR", "a": "VARCHAR"}
    seen = dict.fromkeys(columns, Profile("word", 9, 9, 9, 0, None))
    monkeypatch.setattr(link_tables, "profile_columns", lambda *_: seen)
    monkeypatch.setattr(link_tables, "permutations", recording)
    views = {"a": ViewTable(), "b": ViewTable()}
    table = link_tables.guess_links(None, ("a", "b"), LinkTable("l.csv"), views, {}, columns)
    assert table.columns == ("a", "b")
    assert len(compared) <= 4
    table = link_tables.guess_links(
        None,
        ("x", "y"),
        LinkTable("l.csv"),
        {**views, "x": ViewTable(), "y": ViewTable()},
        {},
        columns,
    )
    assert table.columns == ("c0", "c1")
