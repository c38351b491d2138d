"""Every kind of source gives its rows, with names and values as written."""

import gzip
import sqlite3
from pathlib import Path

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pmvge.errors import TableError
from pmvge.tables import Source
from pmvge.tables.sources.databases import table_names
from pmvge.tables.sources.source import as_source

TABLE = [("007", "x"), ("2", None)]


@pytest.mark.parametrize(
    "text",
    [
        "id,b\n007,x\n2,\n",
        "id,b\n007,x\n2,",
        "id,b\n007,x\n2,NA\n\n",
        "id,b\r\n007,x\r\n2,\r\n",
        "id\tb\n007\tx\n2\t\n",
        "id;b\n007;x\n2;\n",
        "id|b\n007|x\n2|null\n",
        '"id","b"\n"007","x"\n"2",""\n',
        "\ufeffid,b\n007,x\n2,NaN\n",
        '\ufeff"id",b\n007,x\n2,N/A\n',
        "id,b\n007,x,\n2,,\n",
    ],
)
def test_csv_values_are_text_or_null(write, rows, text) -> None:
    types, found = rows(write("t.csv", text))
    assert types == {"id": "VARCHAR", "b": "VARCHAR"}
    assert found == TABLE


def test_the_format_of_a_file_is_detected_from_its_content(write, rows, tmp_path) -> None:
    write("t.csv.gz", gzip.compress(b"id,b\n007,x\n2,\n"))
    assert rows("t.csv.gz")[1] == TABLE
    assert rows(write("t.parquet", "id,b\n007,x\n2,\n"))[1] == TABLE
    pq.write_table(pa.table({"id": [1, 2], "b": ["x", None]}), tmp_path / "p.csv")
    assert rows("p.csv") == ({"id": "BIGINT", "b": "VARCHAR"}, [(1, "x"), (2, None)])


def test_quoted_values_may_contain_anything(write, rows) -> None:
    table = 'id,"a ""b"", c\nd"\n1,"x\ny, ""z"""\n2,5" disc\n'
    types, found = rows(write("t.csv", table))
    assert list(types) == ["id", 'a "b", c\nd']
    assert found == [("1", 'x\ny, "z"'), ("2", '5" disc')]


def test_delimiters_within_quotes_are_ignored(write, rows) -> None:
    types, found = rows(write("t.csv", '"a,b,c";d\n1;2\n'))
    assert list(types) == ["a,b,c", "d"]
    assert found == [("1", "2")]


def test_column_names_with_any_characters(write, rows) -> None:
    names = ["naïve name", 'a "b"', "it's", "日本", "a.b", "SELECT", "rowid"]
    text = pd.DataFrame([range(len(names))], columns=names).to_csv(index=False)
    types, found = rows(write("t.csv", text))
    assert list(types) == names
    assert found == [tuple(map(str, range(len(names))))]


def test_the_index_column_of_pandas_gets_a_name(write, rows) -> None:
    text = pd.DataFrame({"id": ["a", "b"]}).to_csv()
    assert rows(write("t.csv", text)) == (
        {"index": "VARCHAR", "id": "VARCHAR"},
        [("0", "a"), ("1", "b")],
    )


@pytest.mark.parametrize("name", ["a[1].csv", "s*r.csv", "q?.csv", 'it\'s "x".csv', "é 日.csv"])
def test_file_names_with_special_characters(write, rows, name) -> None:
    for other in ("a1.csv", "sxr.csv", "qq.csv"):  # what the name matches as a pattern
        write(other, "wrong\n0\n")
    assert rows(write(name, "right\n1\n")) == ({"right": "VARCHAR"}, [("1",)])


def test_folder_names_with_special_characters(tmp_path, rows) -> None:
    folder = tmp_path / "[old] it's, 1*"
    folder.mkdir()
    (folder / "a.csv").write_text("x\n1\n")
    for source, where in (("a.csv", folder), ("*.csv", folder), (str(folder / "a.csv"), Path())):
        assert rows(source, where)[1] == [("1",)]


def test_globs(write, rows, tmp_path) -> None:
    write("c2.csv", "a,b\n3,4\n")
    write("c1.csv", "\ufeffa,b\r\n1,2\r\n")
    assert rows("c*.csv")[1] == [("1", "2"), ("3", "4")]
    assert rows(str(tmp_path / "c?.csv"))[1] == [("1", "2"), ("3", "4")]
    for at in (1, 2):
        pq.write_table(pa.table({"a": [at]}), tmp_path / f"p{at}.parquet")
    assert rows("p*.parquet")[1] == [(1,), (2,)]
    with pytest.raises(
        TableError, match=r"\[cp\]1\.\*: expected files of one format, got both CSV and Parquet"
    ):
        rows("[cp]1.*")
    write("c3.csv", "a,c\n3,4\n")
    with pytest.raises(TableError, match=r"c3.csv and c1.csv have different headers"):
        rows("c*.csv")


def make_duckdb(path) -> None:
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE \"my films\" AS SELECT 7 AS id, '007' AS code")
        db.execute('CREATE VIEW seen AS SELECT id + 1 AS id FROM "my films"')


def make_sqlite(path) -> None:
    with sqlite3.connect(path) as db:
        db.execute('CREATE TABLE "my films" (id INTEGER, code TEXT)')
        db.execute("INSERT INTO \"my films\" VALUES (7, '007'), (8, NULL)")
        db.execute('CREATE VIEW seen AS SELECT id + 1 AS id FROM "my films"')
    db.close()


@pytest.mark.parametrize("name", ["shop.duckdb", "shop.db", "it's [1] #?%20.db"])
def test_duckdb_files(tmp_path, rows, name) -> None:
    make_duckdb(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    assert rows(Source(database=name, table="my films"))[1] == [(7, "007")]
    assert rows(f"{name}:seen")[1] == [(8,)]
    query = 'SELECT code, id FROM "my films" WHERE id = 7;'
    assert rows(Source(database=name, query=query))[1] == [("007", 7)]
    assert table_names(tmp_path / name) == ["my films", "seen"]
    assert (tmp_path / name).read_bytes() == before
    with pytest.raises(
        TableError, match="unknown table 'film': expected one of 'my films', 'seen'"
    ):
        rows(f"{name}:film")


@pytest.mark.parametrize("name", ["shop.sqlite", "shop.db", "it's [1] #?%20.db"])
def test_sqlite_files(tmp_path, rows, name) -> None:
    make_sqlite(tmp_path / name)
    assert rows(Source(database=name, table="my films"))[1] == [("7", "007"), ("8", None)]
    assert rows(f"{name}:seen")[1] == [("8",), ("9",)]
    assert rows(Source(database=name, query="SELECT max(id) AS id FROM seen"))[1] == [("9",)]
    assert table_names(tmp_path / name) == ["my films"]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(
        TableError, match="unknown table 'film': expected one of 'my films', 'seen'"
    ):
        rows(f"{name}:film")


def test_one_database_in_several_sources(tmp_path) -> None:
    from pmvge.tables import LinkTable, Project, ViewTable, read_tables

    with duckdb.connect(str(tmp_path / "s.duckdb")) as db:
        db.execute("CREATE TABLE a AS SELECT 7 AS id")
        db.execute("CREATE TABLE b AS SELECT 7 AS x, 8 AS y")
    project = Project(
        {"a": ViewTable("s.duckdb:a", "id"), "y": ViewTable()},
        {("a", "y"): LinkTable("s.duckdb:b", ("x", "y"))},
        folder=tmp_path,
    )
    assert read_tables(project).graph.n_links == 1


def test_queries_over_files(write, rows) -> None:
    write("films.csv", "id,year\n1,1999\n2,2004\n")
    found = rows(Source(query="SELECT id FROM 'films.csv' WHERE year > 2000"))[1]
    assert found == [(2,)]


def test_queries_do_not_see_python_variables(rows) -> None:
    frame = pd.DataFrame({"a": [1]})
    assert len(frame) == 1
    for name in ("frame", "source", "db"):
        with pytest.raises(TableError, match=f"query: .* {name} does not exist"):
            rows(Source(query=f"SELECT * FROM {name}"))


COLUMNS = {"id": ["a", "b"], "x": [1.5, 2.5]}


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pa.table, dict, lambda c: pa.table(c).to_reader()],
    ids=["pandas", "arrow", "dict", "reader"],
)
def test_frames(rows, make) -> None:
    types, found = rows(make(COLUMNS))
    assert types == {"id": "VARCHAR", "x": "DOUBLE"}
    assert found == [("a", 1.5), ("b", 2.5)]


def test_polars_frames(rows) -> None:
    frame = polars.DataFrame(COLUMNS).with_columns(polars.col("id").cast(polars.Categorical))
    assert rows(frame)[1] == [("a", 1.5), ("b", 2.5)]


def test_a_named_pandas_index_is_a_column(rows) -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=["p", "q"])
    assert rows(frame)[1] == [(1,), (2,)]
    assert rows(frame.rename_axis("id")) == (
        {"x": "BIGINT", "id": "VARCHAR"},
        [(1, "p"), (2, "q")],
    )


def test_as_source() -> None:
    assert str(as_source("a.csv")) == "a.csv"
    assert str(as_source(Path("b") / "a.csv")) == "b/a.csv"
    source = as_source("shop.sqlite3:films")
    assert (source.database, source.table, source.path) == ("shop.sqlite3", "films", None)
    assert as_source("a:b.csv").path == "a:b.csv"
    assert as_source(source) is source
    assert str(as_source(pd.DataFrame())) == "DataFrame"
