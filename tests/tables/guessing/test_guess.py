"""Guesses of ids, kinds of columns, labels, and the columns and weights of links."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pmvge.errors import TableError
from pmvge.tables import LinkTable, Project, ViewTable, graph_from_frames, read_tables
from pmvge.tables.guessing.column_names import is_named_after
from pmvge.tables.sources.connection import connect
from pmvge.tables.sources.source import as_source

N = 60
RNG = np.random.default_rng(0)


def guessed(views, links):
    """Return the project with everything guessed."""
    project = Project(
        {name: t if isinstance(t, ViewTable) else ViewTable(t) for name, t in views.items()},
        {pair: t if isinstance(t, LinkTable) else LinkTable(t) for pair, t in links.items()},
    )
    return read_tables(project).project


def guess_view(frame, name="films", key="film_id"):
    links = {"v": list(frame[key]), "t": [1] * len(frame[key])}
    return guessed({name: frame, "t": None}, {(name, "t"): LinkTable(links, ("v", "t"))}).views[
        name
    ]


@pytest.mark.parametrize(
    ("column", "view", "named"),
    [
        ("user", "users", True),
        ("user_id", "users", True),
        ("userId", "users", True),
        ("id_user", "users", True),
        ("USER_ID", "users", True),
        ("users", "users", True),
        ("movieId", "movies", True),
        ("movie", "movies", True),
        ("category_id", "categories", True),
        ("class_id", "classes", True),
        ("boss", "bosses", True),
        ("straße_id", "straßen", False),
        ("straße_id", "straße", True),
        ("superuser", "users", False),
        ("rating", "users", False),
    ],
)
def test_columns_named_after_a_view(column, view, named) -> None:
    assert is_named_after(column, view) == named


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (RNG.normal(size=N), "numeric"),
        (RNG.integers(0, 1000, N), "numeric"),
        (RNG.random(N) < 0.5, "numeric"),
        ([f"{x:.3f}" for x in RNG.normal(size=N)], "numeric"),
        (RNG.choice(["red", "blue"], N), "category"),
        ([f"Mr. Number {at} of them" for at in range(N)], "text"),
        ([f"name{at}" for at in range(N)], "text"),
        (["Drama|Love", "War|Drama|Love"] * (N // 2), "categories"),
        ([["red", "big"], ["red"]] * (N // 2), "categories"),
        ([["a", "b"], ["b"]] * (N // 2), "categories"),
        (pd.date_range("2020-01-01", periods=N), "date"),
        (pd.date_range("2020-01-01", periods=N).astype(str), "date"),
        ([datetime.date(2020, 1, 1)] * 30 + [datetime.date(2021, 1, 1)] * 30, "date"),
        (list(RNG.normal(size=(N, 2))), "vector"),
        (["[1, 2]", "[2, 3.5]"] * (N // 2), "vector"),
        ([chr(65 + at) for at in range(N)], "category"),  # single letters are not words
        (["same"] * N, None),
        ([None] * N, None),
        ([{"a": 1}] * N, None),
        ([datetime.time(1, at) for at in range(N)], None),
    ],
)
def test_kinds_of_columns(values, kind) -> None:
    table = pa.table({"film_id": range(N), "x": pa.array(values)})
    features = guess_view(pd.DataFrame({"film_id": range(N), "x": values}))
    assert table.num_rows == N
    assert {name: f.kind for name, f in features.features.items()} == ({"x": kind} if kind else {})


def test_labels_are_not_features() -> None:
    view = guess_view({"film_id": [1, 2], "class": ["a", "b"], "Label": ["c", "d"], "x": [1, 2]})
    assert view.labels == ("class", "Label")
    assert list(view.features) == ["x"]


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        (["film_id", "n"], "film_id"),
        (["n", "filmId"], "filmId"),
        (["n", "id"], "id"),
        (["imdb_id", "film_id"], "film_id"),
        (["index", "film"], "film"),
        (["timestamp", "film"], "film"),
        (["name", "film_code"], "film_code"),
    ],
)
def test_ids(columns, key) -> None:
    frame = {column: list(range(N)) for column in columns}
    assert guess_view(frame, key=key).id == key


def test_times_and_weights_are_not_ids() -> None:
    frame = {"timestamp": list(range(N)), "rating": list(range(N)), "x": [1] * N}
    with pytest.raises(TableError, match=r"view films .dict.: no id column found"):
        guess_view(frame, key="x")


def test_many_mostly_zero_columns_are_a_bag_of_words() -> None:
    words = (RNG.random((N, 120)) < 0.05).astype(int)
    words[:, 7] = 0
    frame = pd.DataFrame(words, columns=[f"w{at}" for at in range(120)]).assign(film_id=range(N))
    view = guess_view(frame)
    assert (view.sparse, view.standardize) == (True, False)
    assert len(view.features) == 120  # a word in no row keeps its column
    assert guess_view(frame[["film_id", *frame.columns[:50]]]).sparse is None


def test_a_constant_column_of_a_numbered_group_is_kept() -> None:
    frame = pd.DataFrame(RNG.normal(size=(N, 20)), columns=[f"x{at}" for at in range(20)])
    frame["x0"] = 1.5
    view = guess_view(frame.assign(film_id=range(N), constant=1))
    assert list(view.features) == [f"x{at}" for at in range(20)]


USERS = {"user_id": list(range(1, 61)), "age": RNG.integers(18, 80, 60)}
FILMS = {"film": [f"f{at}" for at in range(30)], "year": RNG.integers(1950, 2020, 30)}
SEEN = pd.DataFrame(
    {
        "when_timestamp": RNG.integers(10**9, 2 * 10**9, 300),
        "rating": RNG.integers(1, 6, 300),
        "film": RNG.choice(FILMS["film"], 300),
        "user": RNG.integers(1, 61, 300),
    }
)


@pytest.mark.parametrize("renamed", [{}, {"film": "p", "user": "q"}])
def test_columns_of_links(renamed) -> None:
    views = {"users": USERS, "films": FILMS}
    table = SEEN.rename(columns=renamed)
    link = guessed(views, {("users", "films"): table}).links["users", "films"]
    assert link.columns == (renamed.get("user", "user"), renamed.get("film", "film"))
    assert (link.weight, link.symmetrize) == ("rating", None)


def test_ratings_are_not_ids_of_a_view_without_a_table() -> None:
    project = guessed({"users": None, "films": FILMS}, {("users", "films"): SEEN})
    assert project.links["users", "films"].columns == ("user", "film")
    plain = guessed({"user": None, "film": None}, {("film", "user"): SEEN})
    assert plain.links["film", "user"].columns == ("film", "user")


def test_given_weights_and_ids_are_kept() -> None:
    views = {"users": USERS, "films": ViewTable(FILMS, "film", {})}
    link = guessed(
        views, {("users", "films"): LinkTable(SEEN, weight="when_timestamp", aggregate="max")}
    ).links["users", "films"]
    assert (link.weight, link.columns) == ("when_timestamp", ("user", "film"))
    count = guessed(views, {("users", "films"): LinkTable(SEEN, aggregate="count")})
    assert count.links["users", "films"].weight is None
    named = guessed(views, {("users", "films"): LinkTable(SEEN, ("user", "film"))})
    assert named.links["users", "films"].weight is None


@pytest.mark.parametrize(
    ("column", "values", "weight"),
    [
        ("times", [1, 2, 3], "times"),
        ("Rating", [0.5, 1, 2], "Rating"),
        ("anything", [1, 2, 3], "anything"),
        ("anything", [-1, 2, 3], None),
        ("year", [2001, 2002, 2003], None),
        ("session_id", [1, 2, 3], None),
        ("comment", ["good", "bad", "ugly"], None),
    ],
)
def test_weights(column, values, weight) -> None:
    table = {"a": ["x", "y", "z"], "b": ["p", "q", "r"], column: values}
    project = guessed({"a": None, "b": None}, {("a", "b"): table})
    assert project.links["a", "b"].weight == weight


def test_links_within_a_view_are_symmetrized() -> None:
    friends = {"from": RNG.integers(1, 61, 200), "to": RNG.integers(1, 61, 200)}
    friends["to"] = np.where(
        friends["to"] == friends["from"], friends["to"] % 60 + 1, friends["to"]
    )
    link = guessed({"users": USERS}, {("users", "users"): friends}).links["users", "users"]
    assert (set(link.columns), link.symmetrize) == ({"from", "to"}, "max")


def test_empty_tables_are_refused() -> None:
    none = {"id": [], "x": []}
    with pytest.raises(TableError, match=r"view users .dict.: the table has no rows"):
        guessed({"users": none, "t": None}, {("users", "t"): {"id": [1], "t": [2]}})
    with pytest.raises(TableError, match=r"links users,t .dict.: the table has no rows"):
        guessed({"users": USERS, "t": None}, {("users", "t"): none})


def test_links_need_two_columns() -> None:
    with pytest.raises(TableError, match=r"links a,b .dict.: expected two columns of ids, got 'x'"):
        guessed({"a": None, "b": None}, {("a", "b"): {"x": [1, 2]}})


def test_profiles_use_the_first_rows_only(tmp_path) -> None:
    from pmvge.tables.guessing import profile
    from pmvge.tables.sources.staging import stage

    rows = "\n".join(map(str, range(profile.SAMPLE_ROWS)))
    (tmp_path / "t.csv").write_text(f"x\n{rows}\nword\n")
    with connect(tmp_path) as db:
        types = stage(db, "raw", as_source("t.csv"), tmp_path)
        (found,) = profile.profile_columns(db, "raw", types).values()
    assert (found.kind, found.rows, found.unique) == ("integer", profile.SAMPLE_ROWS, True)


def test_vectors_as_numpy_prints_them() -> None:
    X = np.random.default_rng(0).normal(size=(12, 30))
    films = pd.DataFrame({"film_id": range(12), "x": [str(row) for row in X]})
    assert "\n" in films["x"][0]
    assert "," not in films["x"][0]
    seen = pd.DataFrame({"user": range(12), "film_id": range(12)})
    graph = graph_from_frames(
        {"films": ViewTable(films, standardize=False), "user": None}, {("user", "films"): seen}
    )
    assert np.allclose(graph.views["films"], X, atol=1e-6)


def test_lists_of_other_values_are_not_vectors() -> None:
    films = pd.DataFrame({"film_id": range(4), "x": ["[np.float64(0.4), 1]"] * 2 + ["[1, b]"] * 2})
    seen = pd.DataFrame({"user": range(4), "film_id": range(4)})
    views = {"films": ViewTable(films, "film_id", {"x": "vector"}), "user": None}
    with pytest.raises(
        TableError, match=r"column 'x': expected lists of finite numbers, .* but 4 values"
    ):
        graph_from_frames(views, {("user", "films"): seen})
    assert graph_from_frames({**views, "films": films}, {("user", "films"): seen}).n_links == 4


def test_duplicate_ids_are_an_error_not_another_guess() -> None:
    users = pd.DataFrame({"userId": [1, 1, 2], "age": [30, 31, 32]})
    seen = pd.DataFrame({"userId": [1, 2], "film": ["a", "b"]})
    with pytest.raises(TableError, match=r"id column 'userId': expected every id once"):
        graph_from_frames({"users": users, "film": None}, {("users", "film"): seen})
