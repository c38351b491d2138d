"""A query, or a database of somebody's, reads files: it writes none and loads nothing."""

import duckdb
import pytest

from pmvge.errors import TableError
from pmvge.tables import Source
from pmvge.tables.sources.workbench import workbench

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
    """A DuckDB file, with a view of somebody's that writes."""
    folder = tmp_path / "given"
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
        db.execute(f"CREATE VIEW v AS SELECT * FROM {SERIALIZED.format(tmp_path)}")
    return str(folder / "shop.duckdb")


@pytest.mark.parametrize("query", WRITING)
@pytest.mark.parametrize("in_database", [False, True])
def test_a_query_writes_no_file(rows, shop, tmp_path, query, in_database) -> None:
    database = shop if in_database else None
    with pytest.raises(TableError):
        rows(Source(query=query.format(tmp_path), database=database))
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_a_view_of_a_database_writes_no_file(rows, shop, tmp_path) -> None:
    assert rows(f"{shop}:t")[1] == [(1,)]
    with pytest.raises(TableError, match="may not use json_execute_serialized_sql"):
        rows(f"{shop}:v")
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


@pytest.mark.parametrize("name", ["https://example.invalid/x.csv", "s3://x/y.parquet"])
def test_a_query_does_not_go_to_the_network(rows, name) -> None:
    with pytest.raises(TableError, match="requires the extension httpfs to be loaded"):
        rows(Source(query=f"SELECT * FROM '{name}'"))


@pytest.mark.parametrize(
    "setting", ["autoinstall_known_extensions", "autoload_known_extensions", "lock_configuration"]
)
def test_settings_stay_as_they_are(tmp_path, setting) -> None:
    with workbench(tmp_path) as db, pytest.raises(duckdb.Error, match="locked"):
        db.execute(f"SET {setting} = true")
