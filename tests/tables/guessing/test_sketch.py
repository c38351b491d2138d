"""A project guessed from a folder, and its text read again, give the same graph."""

import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

from pmvge.errors import TableError
from pmvge.tables import project_text, read_project, read_tables, sketch_project

GENRES = ["action", "love", "war"]


def frames(text_ids=True) -> dict[str, pd.DataFrame]:
    """Return 40 movies, 60 users and 500 ratings."""
    rng = np.random.default_rng(0)
    movie = np.array([f"m{at}" for at in range(40)]) if text_ids else np.arange(1, 41)
    return {
        "movies": pd.DataFrame(
            {
                "movieId": movie,
                "title": [f"The film number {at} of love" for at in range(40)],
                "year": rng.integers(1950, 2020, 40),
            }
        ),
        "users": pd.DataFrame(
            {
                "userId": range(1, 61),
                "age": rng.integers(18, 60, 60),
                "sex": rng.choice(["M", "F"], 60),
            }
        ),
        "ratings": pd.DataFrame(
            {
                "userId": rng.integers(1, 61, 500),
                "movieId": rng.choice(movie, 500),
                "rating": rng.integers(1, 6, 500),
                "timestamp": rng.permutation(10**6)[:500] + 10**9,
            }
        ),
    }


def save(folder, tables) -> None:
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


@pytest.fixture
def sketched(tmp_path, same):
    """Return a function that guesses the project of the folder and checks its text."""

    def sketch():
        found = sketch_project(tmp_path)
        (tmp_path / "pmvge.toml").write_text(project_text(found.project, found.reasons))
        graph = read_tables(found.project).graph
        same(graph, read_tables(read_project(tmp_path / "pmvge.toml")).graph)
        assert set(found.reasons) == {*found.project.views, *map(",".join, found.project.links)}
        return found, graph

    return sketch


def check_ratings(found, graph, tables, users="users") -> None:
    link = found.project.links[users, "movies"]
    assert (link.columns, link.weight) == (("userId", "movieId"), "rating")
    ratings = tables["ratings"]
    wanted = ratings.groupby(["userId", "movieId"]).rating.sum()
    assert len(graph.links[users, "movies"]) == len(wanted)
    assert graph.links[users, "movies"].total == ratings.rating.sum()


@pytest.mark.parametrize("text_ids", [True, False])
def test_users_and_movies(tmp_path, sketched, text_ids) -> None:
    tables = frames(text_ids)
    save(tmp_path, tables)
    found, graph = sketched()
    assert dict(graph.sizes) == {"movies": 40, "users": 60}
    check_ratings(found, graph, tables)
    views = found.project.views
    assert {c: f.kind for c, f in views["users"].features.items()} == {
        "age": "numeric",
        "sex": "category",
    }
    assert {c: f.kind for c, f in views["movies"].features.items()} == {
        "title": "text",
        "year": "numeric",
    }
    assert found.skipped == {}


@pytest.mark.parametrize("several", [True, False])
def test_users_and_movies_and_genres(tmp_path, sketched, several) -> None:
    rng = np.random.default_rng(1)
    tables = frames()
    movies = tables["movies"].movieId
    pairs = pd.DataFrame({"movie": movies, "genre": rng.choice(GENRES, 40)})
    if several:  # else every movie has one genre and is distinct in that table, too
        more = pd.DataFrame({"movie": movies[:9], "genre": rng.choice(GENRES, 9)})
        pairs = pd.concat([pairs, more]).drop_duplicates()
    tables["movie_genres"] = pairs
    tables["genres"] = pd.DataFrame({"genre": GENRES, "about": ["fights", "kisses", "battles"]})
    save(tmp_path, tables)
    found, graph = sketched()
    assert set(graph.view_names) == {"genres", "movies", "users"}
    assert len(graph.links["movies", "genres"]) == len(pairs)
    check_ratings(found, graph, tables)


def test_ratings_and_movies_without_users(tmp_path, sketched) -> None:
    tables = frames()
    del tables["users"]
    save(tmp_path, tables)
    found, graph = sketched()
    assert graph.views["user"] is None
    assert graph.ids["user"].tolist() == sorted(set(tables["ratings"].userId))
    check_ratings(found, graph, tables, "user")


def test_ratings_alone(tmp_path, sketched) -> None:
    save(tmp_path, {"ratings": frames()["ratings"]})
    found, graph = sketched()
    assert list(graph.links) == [("user", "movie")] or list(graph.links) == [("movie", "user")]
    (link,) = found.project.links.values()
    assert link.weight == "rating"


def test_movielens_files(tmp_path, sketched) -> None:
    tables = frames(text_ids=False)
    del tables["users"]
    rng = np.random.default_rng(2)
    tables["links"] = pd.DataFrame(
        {"movieId": range(1, 41), "imdbId": [f"{n:07}" for n in rng.permutation(10**5)[:40]]}
    )
    tables["tags"] = tables["ratings"][["userId", "movieId"]][:90].assign(tag="funny")
    save(tmp_path, tables)
    found, graph = sketched()
    check_ratings(found, graph, tables, "user")
    assert set(found.skipped) == {"tags.csv", "links.csv"}


def test_cora_like_files(tmp_path, sketched) -> None:
    rng = np.random.default_rng(0)
    words = (rng.random((200, 1433)) < 0.05).astype(int)
    words[:, [0, 5, 1432]] = 0  # words in no paper
    papers = pd.DataFrame(words, columns=[f"w{at}" for at in range(1433)])
    papers.insert(0, "id", rng.permutation(10**6)[:200])
    papers["class"] = rng.choice(["Theory", "Neural_Networks"], 200)
    cites = pd.DataFrame(
        {"cited": rng.choice(papers.id, 500), "citing": rng.choice(papers.id, 500)}
    )
    cites = cites[cites.cited != cites.citing]
    save(tmp_path, {"papers": papers, "cites": cites})
    found, graph = sketched()
    assert graph.views["papers"].shape == (200, 1433)
    order = np.argsort(papers.id)
    assert (graph.views["papers"].toarray() == words[order]).all()
    assert found.project.views["papers"].labels == ("class",)
    pairs = {frozenset(pair) for pair in cites.itertuples(index=False)}
    assert len(graph.links["papers", "papers"]) == len(pairs)
    assert (tmp_path / "pmvge.toml").read_text().count("\n") < 60


@pytest.mark.parametrize(
    ("columns", "as_text", "views"),
    [
        (("source", "target"), False, {"node"}),
        (("anna", "berta"), True, {"node"}),  # the same words on both sides
        (
            ("user_id", "item_id"),
            False,
            {"user", "item"},
        ),  # the same numbers, ids of different views
        (("anna", "berta"), False, {"anna", "berta"}),
    ],
)
def test_an_edge_list_alone(columns, as_text, views, tmp_path, sketched) -> None:
    ends = np.random.default_rng(0).integers(0, 50, (200, 2))
    ends = ends[ends[:, 0] < ends[:, 1]]
    edges = pd.DataFrame(ends, columns=columns)
    save(tmp_path, {"edges": edges.map("n{}".format) if as_text else edges})
    _, graph = sketched()
    assert set(graph.view_names) == views
    assert graph.total_weight == len(edges)


def test_a_foreign_key_is_a_link_table(tmp_path, sketched) -> None:
    rng = np.random.default_rng(0)
    orders = pd.DataFrame({"order_id": range(100), "user_id": rng.integers(1, 61, 100)})
    save(tmp_path, {"users": frames()["users"], "orders": orders.assign(total=rng.random(100))})
    found, graph = sketched()
    assert graph.links["orders", "users"].total == 100
    assert list(found.project.views["orders"].features) == ["total"]
    assert list(found.project.views["users"].features) == [
        "age",
        "sex",
    ]  # ages are not ids of orders


def test_ratings_with_an_id_column(tmp_path, sketched) -> None:
    tables = frames(text_ids=False)
    tables["ratings"].insert(0, "rating_id", range(500))
    save(tmp_path, tables)
    check_ratings(*sketched(), tables)
    (tmp_path / "ratings.csv").write_text(frames(text_ids=False)["ratings"].to_csv())
    check_ratings(*sketched(), tables)


@pytest.mark.parametrize("kind", ["parquet", "duckdb", "sqlite"])
def test_parquet_files_and_databases(tmp_path, sketched, kind) -> None:
    tables = frames(text_ids=False)
    if kind == "parquet":
        for name, table in tables.items():
            table.to_parquet(tmp_path / f"{name}.parquet")
    elif kind == "duckdb":
        with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
            for name, table in tables.items():
                db.register("given", table)
                db.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
                db.unregister("given")
    else:
        with sqlite3.connect(tmp_path / "shop.sqlite") as db:
            for name, table in tables.items():
                table.to_sql(name, db, index=False)
        db.close()
    check_ratings(*sketched(), tables)


def test_skipped_tables_are_listed(tmp_path, sketched) -> None:
    tables = frames()
    ratings = tables.pop("ratings")
    save(tmp_path, tables | {"ratings.1": ratings[:200], "ratings.2": ratings[200:]})
    (tmp_path / "empty.csv").write_text("a,b\n")
    (tmp_path / "notes.txt").write_text("Some words.\nMore, with, commas.\n")
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "broken.db").write_bytes(b"no database")
    (tmp_path / "._movies.csv").write_bytes(b"\0\1")
    (tmp_path / "ALONE.CSV").write_text("name,x\na,1\nb,2\n")
    found, graph = sketched()
    assert graph.links["users", "movies"].total == ratings[:200].rating.sum()
    assert set(found.skipped) == {
        "ratings.2.csv", "empty.csv", "notes.txt", "picture.csv", "broken.db", "ALONE.CSV"
    }  # fmt: skip
    assert found.skipped["ratings.2.csv"] == (
        "users and movies are already linked by ratings.1.csv; to use both, combine them by a glob "
        "or a query"
    )
    assert not any("\n" in why for why in found.skipped.values())


def test_folders_without_tables_or_links_are_refused(tmp_path) -> None:
    with pytest.raises(TableError, match=r"expected CSV, .* or database files, found no tables"):
        sketch_project(tmp_path)
    with pytest.raises(TableError, match="no such folder"):
        sketch_project(tmp_path / "none")
    save(tmp_path, {"movies": frames()["movies"]})
    with pytest.raises(TableError, match=r"no link table found: .*movies.csv: movieId, titl"):
        sketch_project(tmp_path)


def test_ids_of_the_same_table_are_links_within_it(tmp_path, sketched) -> None:
    rng = np.random.default_rng(0)
    staff = pd.DataFrame(
        {"staff_id": [f"s{n}" for n in range(60)], "age": rng.integers(20, 60, 60)}
    )
    staff["boss"] = [f"s{n // 4}" if n else None for n in range(60)]
    save(tmp_path, {"staff": staff})
    found, graph = sketched()
    assert set(found.project.links) == {("staff", "staff")}
    assert graph.n_links == 59
    assert list(found.project.views["staff"].features) == ["age"]
