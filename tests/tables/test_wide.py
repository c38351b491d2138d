"""Tables of very many columns: the work grows with their number, not with its square."""

import itertools

import pytest

from pmvge.errors import TableError
from pmvge.tables import LinkTable, Source, ViewTable, casts, guess, profile
from pmvge.tables.profile import Profile
from pmvge.tables.staging import stage
from pmvge.tables.workbench import ask, workbench

MANY = 450


@pytest.fixture
def asked(monkeypatch):
    """The statements of profiles and of checks."""
    found = []

    def noting(db, query):
        found.append(query)
        return ask(db, query)

    monkeypatch.setattr(profile, "ask", noting)
    monkeypatch.setattr(casts, "ask", noting)
    return found


def test_numbers_are_not_searched_for_words(asked, tmp_path) -> None:
    frame = {"n": ["1", "2.5", None], "w": ["one", "two", "2"]}
    with workbench(tmp_path) as db:
        types = stage(db, "raw", Source(frame=frame), tmp_path)
        found = profile.profiles(db, "raw", types)
    assert (found["n"].kind, found["n"].distinct, found["w"].kind) == ("number", 2, "word")
    (patterns,) = [query for query in asked if "regexp_matches" in query]
    assert 'regexp_matches(CAST("w"' in patterns
    assert 'regexp_matches(CAST("n"' not in patterns


def test_casts_are_checked_in_parts(asked, tmp_path) -> None:
    frame = {f"c{i}": ["1", "x" if i == MANY - 1 else "2"] for i in range(MANY)}
    with workbench(tmp_path) as db:
        types = stage(db, "raw", Source(frame=frame), tmp_path)
        with pytest.raises(TableError, match=f"column 'c{MANY - 1}': expected numbers"):
            casts.check_casts(db, "here", "raw", dict.fromkeys(types, "numeric"), types)
    assert max(query.count("count_if") for query in asked) <= casts.PART


def test_not_all_pairs_of_columns_are_compared(monkeypatch) -> None:
    compared = []

    def noting(items, length):
        compared.extend(items)
        return itertools.permutations(items, length)

    columns = {**{f"c{i}": "VARCHAR" for i in range(MANY)}, "b": "VARCHAR", "a": "VARCHAR"}
    seen = dict.fromkeys(columns, Profile("word", 9, 9, 9, 0, None))
    monkeypatch.setattr(guess, "profiles", lambda *_: seen)
    monkeypatch.setattr(guess, "permutations", noting)
    views = {"a": ViewTable(), "b": ViewTable()}
    table = guess.guess_links(None, ("a", "b"), LinkTable("l.csv"), views, {}, columns)
    assert table.columns == ("a", "b")
    assert len(compared) <= 4
    table = guess.guess_links(
        None,
        ("x", "y"),
        LinkTable("l.csv"),
        {**views, "x": ViewTable(), "y": ViewTable()},
        {},
        columns,
    )
    assert table.columns == ("c0", "c1")
