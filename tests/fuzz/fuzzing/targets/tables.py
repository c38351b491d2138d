"""Tables and their description: CSV, Parquet, databases, ``pmvge.toml``."""

from __future__ import annotations

import gzip
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow
from pyarrow import parquet
from scipy import sparse

from fuzzing.target import Target, check_finite
from pmvge.tables import (
    LinkTable,
    Project,
    ViewTable,
    pair_of,
    project_text,
    read_labels,
    read_links,
    read_project,
    read_tables,
    rows_of,
    sketch_project,
)

USERS = """user_id,age,joined,group,about,taste,label
1,31,2020-01-05,red,likes old films,"[0.5, 1.0]",x
2,,2021-07-30,blue,likes new films,"[1.5, -1.0]",y
3,45.5,2019-02-28,red,reads old books,"[0.25, 2.0]",x
4,28,,green,"reads, and sees, films","[2.0, 0.0]",y
"""
FILMS = """film,year,length
alien,1979,117
brazil,1985,132
"cat, the",2002,90
"""
SEEN = """user,film,times
1,alien,2
1,brazil,1
2,"cat, the",1
3,alien,4
4,brazil,1.5
"""
FRIENDS = "a,b\n1,2\n2,3\n4,1\n"
PROJECT = """# films that users have seen
[views.users]
source = "users.csv"
id = "user_id"
labels = ["label"]
[views.users.features]
age = "numeric"
joined = "date"
group = { kind = "category", size = 5 }
about = { kind = "text", hashed = true, size = 16 }
taste = "vector"

[views.films]
source = "films.*"
id = "film"
standardize = false
sparse = false
features = { "[yl]e*" = "numeric" }

[views.tags]

[[links]]
source = "seen.csv"
views = ["users", "films"]
columns = ["user", "film"]
weight = "times"

[[links]]
source = "friends.csv"
views = ["users", "users"]
columns = ["a", "b"]
aggregate = "max"
symmetrize = "max"

[[links]]
query = "SELECT film, times AS tag FROM 'seen.csv'"
views = ["films", "tags"]
columns = ["film", "tag"]
aggregate = "count"

[model]
n_components = 4
hidden_sizes = [8]
"""


def make_csv(folder: Path) -> None:
    for name, text in (("users", USERS), ("films", FILMS), ("seen", SEEN), ("friends", FRIENDS)):
        (folder / f"{name}.csv").write_text(text)
    (folder / "pmvge.toml").write_text(PROJECT)


def make_gzip(folder: Path) -> None:
    (folder / "users.csv.gz").write_bytes(gzip.compress(USERS.encode(), mtime=0))
    (folder / "seen.tsv.gz").write_bytes(gzip.compress(SEEN.replace(",", "\t").encode(), mtime=0))


@cache
def frames() -> dict[str, Any]:
    """Return the tables with column types."""
    return {
        "users": pyarrow.table(
            {
                "user_id": [1, 2, 3, 4],
                "age": [31.0, None, 45.5, 28.0],
                "joined": pyarrow.array([18266, 18838, 17955, None], pyarrow.date32()),
                "group": pyarrow.array(["red", "blue", "red", "green"]).dictionary_encode(),
                "about": ["likes old films", "likes new films", None, "reads films"],
                "taste": pyarrow.array(
                    [[0.5, 1.0], [1.5, -1.0], [0.25, 2.0], [2.0, 0.0]],
                    pyarrow.list_(pyarrow.float32()),
                ),
            }
        ),
        "seen": pyarrow.table(
            {"user_id": [1, 1, 2, 3, 4], "film": list("abcab"), "times": [2, 1, 1, 4, 1]}
        ),
    }


def make_parquet(folder: Path) -> None:
    for name, frame in frames().items():
        parquet.write_table(frame, folder / f"{name}.parquet", compression="none")


def make_duckdb(folder: Path) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as db:
        for name, frame in frames().items():
            db.register("given", frame)
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            db.unregister("given")


def make_sqlite(folder: Path) -> None:
    connection = sqlite3.connect(folder / "shop.sqlite")
    connection.execute("PRAGMA page_size = 512")
    connection.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY, age REAL, about TEXT)")
    connection.execute("CREATE TABLE seen (user_id INTEGER, film TEXT, times REAL)")
    rows = [(1, 31.0, "old films"), (2, None, "new films"), (3, 45.5, None), (4, 28.0, "films")]
    connection.executemany("INSERT INTO users VALUES (?, ?, ?)", rows)
    seen = [(1, "a", 2), (1, "b", 1), (2, "c", 1), (3, "a", 4.5), (4, "b", 1)]
    connection.executemany("INSERT INTO seen VALUES (?, ?, ?)", seen)
    connection.commit()
    connection.close()


# -- readers ------------------------------------------------------------------------------------


def check_graph(graph: Any) -> None:
    """Check that a model could be fitted to the graph."""
    for view, X in graph.views.items():
        assert len(graph.ids[view]) == graph.sizes[view] == len(set(graph.ids[view].tolist()))
        if X is not None:
            check_finite(X.data if sparse.issparse(X) else X)
            assert X.shape[0] == graph.sizes[view]
    for pair, links in graph.links.items():
        check_finite(links.weights)
        assert (np.asarray(links.weights) > 0).all()
        assert len(links) > 0
        for positions, view in ((links.rows, pair[0]), (links.cols, pair[1])):
            assert 0 <= positions.min() <= positions.max() < graph.sizes[view]


def check_tables(tables: Any) -> None:
    check_graph(tables.graph)
    assert all("\n" not in note for note in tables.notes())


def read_csv(folder: Path, output: Path) -> None:
    check_tables(read_tables(read_project(folder / "pmvge.toml")))


def read_cached(folder: Path, output: Path) -> None:
    """Read twice: the second pass opens the feature cache that the first has written."""
    for _ in range(2):
        check_tables(read_tables(read_project(folder / "pmvge.toml"), spill=output))


def read_guessed(end: str, seen: str) -> Any:
    def read(folder: Path, output: Path) -> None:
        project = Project(
            {"users": ViewTable(f"users{end}"), "films": ViewTable()},
            {("users", "films"): LinkTable(seen, ("user", "film") if end != ".parquet" else None)},
            folder=folder,
        )
        check_tables(read_tables(project))

    return read


def read_database(name: str) -> Any:
    def read(folder: Path, output: Path) -> None:
        project = Project(
            {"users": ViewTable(f"{name}:users"), "films": ViewTable()},
            {("users", "films"): LinkTable(f"{name}:seen", ("user_id", "film"), "times")},
            folder=folder,
        )
        check_tables(read_tables(project))

    return read


def read_sketch(folder: Path, output: Path) -> None:
    sketch = sketch_project(folder)
    (output / "pmvge.toml").write_text(project_text(sketch.project, sketch.reasons))
    project = read_project(output / "pmvge.toml")
    check_tables(read_tables(Project(project.views, project.links, project.model, folder)))


@cache
def learned() -> tuple[Any, Any]:
    """Return how the valid tables were read, and the ids of their graph."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="fuzz-") as folder:
        make_csv(Path(folder))
        graph = read_tables(read_project(Path(folder) / "pmvge.toml")).graph
    return graph.tables, graph.ids


def read_new_rows(folder: Path, output: Path) -> None:
    """Read each file separately, as ``embed``, ``search`` and ``evaluate`` do."""
    tables, ids = learned()
    for view in ("users", "films"):
        found, X = rows_of(tables, view, folder / f"{view}.csv")
        assert X is not None
        assert len(found) == X.shape[0]
        check_finite(X.data if sparse.issparse(X) else X)
    read_labels(tables, ids, "users", folder / "users.csv", "label")
    links, _ = read_links(tables, ids, ("users", "films"), folder / "seen.csv")
    check_finite(links.weights)
    assert pair_of(tables, folder / "friends.csv") == ("users", "users")


TABLES = ("*.csv",)
TARGETS = [
    Target("csv", make_csv, read_csv, TABLES, share=1.5),
    Target("csv guessed", make_csv, read_guessed(".csv", "seen.csv"), ("users*", "seen*")),
    Target("csv gzip", make_gzip, read_guessed(".csv.gz", "seen.tsv.gz")),
    Target("csv cached", make_csv, read_cached, TABLES, share=0.3),
    Target("csv new rows", make_csv, read_new_rows, TABLES),
    Target("csv init", make_csv, read_sketch, TABLES, share=0.5),
    Target("toml", make_csv, read_csv, ("pmvge.toml",), share=1.5),
    Target("parquet", make_parquet, read_guessed(".parquet", "seen.parquet"), share=1.5),
    Target("duckdb", make_duckdb, read_database("shop.duckdb"), share=0.3),
    Target("sqlite", make_sqlite, read_database("shop.sqlite")),
]
