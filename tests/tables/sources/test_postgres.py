"""Tables of a real PostgreSQL server, on a Unix socket in a temporary folder."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pg8000.native
import pytest
from typer.testing import CliRunner

from pmvge import Embeddings
from pmvge.cli.app import app
from pmvge.errors import TableError
from pmvge.tables import LinkTable, Project, Source, ViewTable, project_text, read_tables
from pmvge.tables.guessing.folder import find_database_tables
from pmvge.tables.on_disk.feature_cache import FeatureCache
from pmvge.tables.sources.databases import table_names
from pmvge.tables.sources.source import as_source, without_password


def find_program(name: str) -> str:
    """Return the path of a program of PostgreSQL; skip the test without it."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name) or next(
        (str(folder / name) for folder in folders if (folder / name).exists()), None
    )
    if found is None:
        pytest.skip(f"PostgreSQL is not installed: no {name}")
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a server with the database "shop" and the user "reader"; yield its address.

    The server refuses to run as root, so that it then runs as "nobody".
    """
    initdb, postgres = find_program("initdb"), find_program("postgres")
    user = "nobody" if os.geteuid() == 0 else None
    with TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:  # sockets have short names
        Path(folder).chmod(0o755)
        if user is not None:
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        data = f"{folder}/data"
        run = {"user": user, "cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}
        subprocess.run(
            [initdb, "-D", data, "-U", "reader", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True, capture_output=True, **run,
        )  # fmt: skip
        server = subprocess.Popen(
            [postgres, "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **run,
        )  # fmt: skip
        try:
            _wait(server, f"{folder}/.s.PGSQL.5432")
            yield f"postgresql://reader@/shop?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown
            server.wait()


def _wait(server: subprocess.Popen, socket: str) -> None:
    """Wait until the server answers, and create the database."""
    while True:
        try:
            with pg8000.native.Connection("reader", database="postgres", unix_sock=socket) as db:
                db.run("CREATE DATABASE shop")
                return
        except pg8000.Error:
            assert server.poll() is None, "the server has ended"
            time.sleep(0.05)


def connect(address: str) -> pg8000.native.Connection:
    """Open a session that can write."""
    socket = f"{address.partition('host=')[2]}/.s.PGSQL.5432"
    return pg8000.native.Connection("reader", database="shop", unix_sock=socket)


SHOP = [
    "CREATE TABLE users (user_id text PRIMARY KEY, age int, city text, taste float8[], vip bool)",
    "CREATE TABLE films (film_id int PRIMARY KEY, title text, released date)",
    "CREATE TABLE ratings (user_id text REFERENCES users, film_id int REFERENCES films, stars int)",
    "CREATE TABLE held_out (LIKE ratings)",
    "CREATE TABLE new_users (LIKE users)",
    "CREATE FUNCTION add_user() RETURNS int LANGUAGE sql AS "
    "'INSERT INTO users VALUES (''x'') RETURNING 1'",
    "CREATE SCHEMA old",
    'CREATE TABLE old."my films" (id int, "a ""b""" text)',
    "INSERT INTO old.\"my films\" VALUES (7, '007'), (8, NULL), (9, ''), (10, E'x\\n\"y\", z')",
]


@pytest.fixture(scope="module")
def shop(server) -> tuple[str, dict[str, pd.DataFrame]]:
    """Fill the database; return its address and the tables."""
    rng = np.random.default_rng(0)

    def users(names):
        n = len(names)
        taste = [str(v) for v in rng.normal(size=(n, 3)).round(3).tolist()]
        city = rng.choice(["K\u00f6ln", "N\u00eemes"], n)
        vip = rng.random(n) < 0.5
        return pd.DataFrame(
            {"user_id": names, "age": rng.integers(18, 80, n), "city": city, "taste": taste,
             "vip": vip}
        )  # fmt: skip

    films = pd.DataFrame(
        {"film_id": 7 * np.arange(1, 31), "title": [f"film {k}" for k in range(30)]}
    )
    films["released"] = [f"20{k:02d}-03-01" for k in range(30)]
    frames = {"users": users([f"u{k}" for k in range(40)]), "films": films}
    frames["new_users"] = users([f"v{k}" for k in range(5)])
    pairs = rng.choice(40 * 30, 300, replace=False)
    ratings = pd.DataFrame(
        {
            "user_id": frames["users"].user_id.to_numpy()[pairs // 30],
            "film_id": films.film_id.to_numpy()[pairs % 30],
            "stars": rng.integers(1, 6, 300),
        }
    )
    frames |= {"ratings": ratings[:270], "held_out": ratings[270:]}
    with connect(server) as db:
        for statement in SHOP:
            db.run(statement)
        for name in ("users", "films", "ratings", "held_out", "new_users"):
            frame = frames[name]
            values = ", ".join(f":{column}" for column in frame)
            for row in frame.to_dict("records"):
                given = {k: v.item() if isinstance(v, np.generic) else v for k, v in row.items()}
                if "taste" in given:
                    given["taste"] = json.loads(given["taste"])
                db.run(f"INSERT INTO {name} VALUES ({values})", **given)
    return server, frames


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow  # the server takes seconds to start
class TestServer:
    def test_tables_are_listed_with_the_schema_of_those_outside_the_search_path(self, shop):
        names = ["films", "held_out", "new_users", "old.my films", "ratings", "users"]
        assert table_names(shop[0]) == names

    def test_rows_of_tables_are_texts(self, shop, rows):
        types, found = rows(f"{shop[0]}:old.my films")
        assert types == {"id": "VARCHAR", 'a "b"': "VARCHAR"}
        assert found == [("7", "007"), ("8", None), ("9", ""), ("10", 'x\n"y", z')]

    def test_init_reads_tables_before_views_and_names_other_schemas(self, shop):
        address = shop[0]
        with connect(address) as db:
            db.run("CREATE VIEW best AS SELECT * FROM ratings WHERE stars > 3")
            db.run("CREATE SCHEMA reports")
            db.run("CREATE VIEW reports.films AS SELECT * FROM films")
        try:
            found, skipped = find_database_tables(address)
            assert {table.name for table in found} >= {"films", "ratings"}
            assert "best" not in {table.name for table in found}
            assert list(skipped) == [f"{address}:old.*"]
            assert "ALTER ROLE" in skipped[f"{address}:old.*"]
        finally:
            with connect(address) as db:
                db.run("DROP VIEW best")
                db.run("DROP SCHEMA reports CASCADE")

    def test_views_can_be_read(self, shop, rows):
        with connect(shop[0]) as db:
            db.run("CREATE VIEW best AS SELECT film_id FROM films WHERE film_id < 20")
        try:
            assert rows(f"{shop[0]}:best")[1] == [("7",), ("14",)]
        finally:
            with connect(shop[0]) as db:
                db.run("DROP VIEW best")

    def test_arrays_dates_and_truth_values(self, shop, rows):
        query = (
            "SELECT ARRAY[1, 2.5]::float8[] AS v, DATE '2020-01-02' AS d, true AS b, "
            "NULL::int AS n, 'a:b'::text AS \"c:d\" -- a comment"
        )
        types, found = rows(Source(database=shop[0], query=query))
        assert list(types) == ["v", "d", "b", "n", "c:d"]
        assert found == [([1, 2.5], "2020-01-02", "true", None, "a:b")]

    def test_arrays_are_lists(self, shop, rows):
        first = (
            "ARRAY['a|b', 'c \"d\"', NULL] AS t, ARRAY[3, 4]::int2[] AS i, "
            "ARRAY['NaN', 1.5]::numeric[] AS x, ARRAY[ARRAY[1, 2], ARRAY[3, 4]]::float4[] AS m, "
            "ARRAY[true] AS b, ARRAY[DATE '2020-01-02'] AS d"
        )
        query = f"SELECT {first} UNION ALL SELECT '{{}}', NULL, '{{}}', NULL, NULL, NULL"
        types, found = rows(Source(database=shop[0], query=query))
        assert types == {
            "t": "VARCHAR[]", "i": "BIGINT[]", "x": "DOUBLE[]", "m": "DOUBLE[]",
            "b": "VARCHAR[]", "d": "VARCHAR[]",
        }  # fmt: skip
        (t, i, x, m, b, d), second = found
        assert (t, i, m) == (["a|b", 'c "d"', None], [3, 4], [1, 2, 3, 4])
        assert np.isnan(x[0])
        assert (x[1], b, d) == (1.5, ["true"], ["2020-01-02"])
        assert second == ([], None, [], None, None, None)

    def test_text_arrays_are_several_categories(self, shop, tmp_path):
        with connect(shop[0]) as db:
            db.run("CREATE TABLE old.tagged (film_id int PRIMARY KEY, tags text[])")
            for k in range(30):
                tags = [["drama", "war"], ["comedy"], ["war", "comedy"]][k % 3]
                db.run("INSERT INTO old.tagged VALUES (:k, :tags)", k=7 * (k + 1), tags=tags)
        tagged = ViewTable(f"{shop[0]}:old.tagged", "film_id")
        seen = LinkTable(f"{shop[0]}:ratings", ("user_id", "film_id"))
        project = Project({"films": tagged, "users": ViewTable()}, {("users", "films"): seen})
        recipe = read_tables(project).graph.tables["views"]["films"]["recipe"]
        (tags,) = recipe["blocks"]
        assert (tags["block"], tags["values"]) == ("categories", ["comedy", "drama", "war"])

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("SELECT nope FROM users", 'column "nope" does not exist'),
            ("SELECT 1; DROP TABLE users", 'syntax error at or near ";"'),
            ("SELECT 1) AS x) TO STDOUT; DROP TABLE users; COPY (SELECT 1", "syntax error"),
            ("DELETE FROM users RETURNING user_id", "syntax error"),
            ("WITH x AS (DELETE FROM users RETURNING 1) SELECT 1", "data-modifying"),
            ("SELECT add_user()", "cannot execute INSERT in a read-only transaction"),
            ('SELECT 1 AS a, 2 AS "A"', "expected distinct column names"),
        ],
    )
    def test_other_queries_are_refused(self, shop, rows, query, message):
        with pytest.raises(TableError) as caught:
            rows(Source(database=shop[0], query=query))
        assert message in str(caught.value)
        with connect(shop[0]) as db:
            assert db.run("SELECT count(*) FROM users") == [[40]]

    def test_unknown_tables_and_databases(self, shop, rows):
        with pytest.raises(TableError, match="unknown table 'film': expected one of 'films', "):
            rows(f"{shop[0]}:film")
        with pytest.raises(TableError, match=r"expected a table, as in ADDRESS:TABLE; there are f"):
            rows(shop[0])
        with pytest.raises(TableError, match='cannot connect: database "shops" does not exist'):
            rows(shop[0].replace("/shop?", "/shops?") + ":films")

    def test_what_an_address_leaves_out_comes_from_the_environment(self, shop, rows, monkeypatch):
        monkeypatch.setenv("PGHOST", shop[0].partition("host=")[2])
        monkeypatch.setenv("PGUSER", "reader")
        monkeypatch.setenv("PGDATABASE", "shop")
        assert len(rows("postgresql://:films")[1]) == 30

    def test_the_four_commands_give_the_results_of_csv_files(self, shop, tmp_path):
        address, frames = shop
        later = tmp_path / "later"
        later.mkdir()
        for name, frame in frames.items():
            path = later if name in ("held_out", "new_users") else tmp_path
            frame.to_csv(path / f"{name}.csv", index=False)
        with connect(address) as db:  # init reads the tables of the search path
            for name in ("held_out", "new_users"):
                db.run(f"ALTER TABLE {name} SET SCHEMA old")
        found = []
        for start, ending in ((tmp_path, ".csv"), (address, "")):
            at = [str(later / f"{name}.csv") for name in ("new_users", "held_out")]
            if not ending:
                at = [f"{address}:old.{name}" for name in ("new_users", "held_out")]
            project = tmp_path / f"pmvge{ending}.toml"
            run("init", start, "-o", project)
            model, vectors = tmp_path / f"model{ending}", tmp_path / f"v{ending}.parquet"
            run("fit", project, "-o", model, "--set", "max_steps=5", "--set", "n_components=4")
            run("embed", model, "--view", "users", at[0], "-o", vectors)
            scores = json.loads(run("evaluate", model, "--links", at[1], "--json"))["pairs"]
            found.append((Embeddings.load(vectors), scores))
        (wanted, wanted_scores), (vectors, scores) = found
        assert vectors.ids.tolist() == wanted.ids.tolist() == [f"v{k}" for k in range(5)]
        np.testing.assert_allclose(vectors.vectors, wanted.vectors, rtol=0, atol=1e-6)
        assert scores == wanted_scores
        assert 'taste = "vector"' in (tmp_path / "pmvge.toml").read_text()


def test_addresses():
    source = as_source("postgresql://ann:s3cret@db.example:5433/shop:old.films")
    assert source.table == "old.films"
    assert str(source) == "postgresql://ann@db.example:5433/shop:old.films"
    assert as_source("postgres://db.example:5433/shop").table == ""
    sock = as_source("postgresql:///shop?host=/tmp/sock:films")
    assert (sock.database, sock.table) == ("postgresql:///shop?host=/tmp/sock", "films")
    given = "postgresql://ann@h/shop?password=x&sslmode=verify-full"
    assert without_password(given) == "postgresql://ann@h/shop?sslmode=verify-full"
    assert without_password("postgresql:///shop?password=x") == "postgresql:///shop"


def test_a_project_file_has_no_password():
    project = Project(
        {"a": ViewTable(), "b": ViewTable()},
        {("a", "b"): LinkTable("postgresql://ann:s3cret@h/shop:seen", ("x", "y"))},
    )
    text = project_text(project)
    assert 'database = "postgresql://ann@h/shop"' in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql:///shop?host=/nonexistent:t", "shop.host=/nonexistent: cannot connect: "),
        ("postgresql://ann:s3cret@localhost:1/shop:t", "ann@localhost:1/shop: cannot connect: "),
        ("postgresql://h/shop?sslmod=x:t", "unknown option 'sslmod': .*did you mean 'sslmode'"),
        ("postgresql://h:x/shop:t", "expected a port number"),
    ],
)
def test_bad_addresses(rows, address, message):
    with pytest.raises(TableError, match=message) as caught:
        rows(address)
    assert "s3cret" not in str(caught.value)


def test_features_from_a_server_are_not_cached(tmp_path):
    table = ViewTable("postgresql://h/shop:films", "id", {})
    assert FeatureCache.of(tmp_path, "films", table, {}, tmp_path).origin is None
