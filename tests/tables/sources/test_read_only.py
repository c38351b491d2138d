"""Queries and databases can read files, but cannot write them or load extensions."""

import duckdb
import pytest

from pmvge.errors import TableError
from pmvge.tables import Source
from pmvge.tables.sources.connection import connect

COPY = "WITH x AS (COPY (SELECT 1) TO '{0}/evil') SELECT 1 AS a"
SERIALIZED = "json_execute_serialized_sql(json_serialize_sql('" + COPY.replace("'", "''") + "'))"
WRITING = [
    COPY,
    "SELECT * FROM enable_logging(storage='file', storage_path='{0}/evil')",
    "SELECT 1 AS a WHERE (SELECT count(*) FROM enable_profiling(save_location='{0}/evil')) >= 0",
    f"SELECT * FROM {SERIALIZED}",
    f"SELECT 1 AS a WHERE (SELECT count(*) FROM system.main.{SERIALIZED}) > 0",
]


@pytest.fixture
def shop(tmp_path):
    """Create a DuckDB file with a view that tries to write a file."""
    folder = tmp_path / "given"
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
        db.execute(f"CREATE VIEW v AS SELECT * FROM {SERIALIZED.format(tmp_path)}")
    return str(folder / "shop.duckdb")


@pytest.mark.parametrize("query", WRITING)
@pytest.mark.parametrize("in_database", [False, True])
def test_queries_cannot_write_files(rows, shop, tmp_path, query, in_database) -> None:
    database = shop if in_database else None
    with pytest.raises(TableError):
        rows(Source(query=query.format(tmp_path), database=database))
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_views_of_a_database_cannot_write_files(rows, shop, tmp_path) -> None:
    assert rows(f"{shop}:t")[1] == [(1,)]
    with pytest.raises(TableError, match="may not use json_execute_serialized_sql"):
        rows(f"{shop}:v")
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


@pytest.mark.parametrize("name", ["https://example.invalid/x.csv", "s3://x/y.parquet"])
def test_queries_cannot_access_the_network(rows, name) -> None:
    with pytest.raises(TableError, match="requires the extension httpfs to be loaded"):
        rows(Source(query=f"SELECT * FROM '{name}'"))


@pytest.mark.parametrize(
    "setting", ["autoinstall_known_extensions", "autoload_known_extensions", "lock_configuration"]
)
def test_the_configuration_is_locked(tmp_path, setting) -> None:
    with connect(tmp_path) as db, pytest.raises(duckdb.Error, match="locked"):
        db.execute(f"SET {setting} = true")
