"""Text files without a header, in other encodings, with other delimiters and missing values.

The rows are compared with those that pandas reads with the same options.
"""

import io

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pmvge.errors import TableError
from pmvge.tables import (
    Feature,
    LinkTable,
    Project,
    Source,
    ViewTable,
    project_text,
    read_project,
    read_tables,
)
from pmvge.tables.sources.connection import connect, fetch_all
from pmvge.tables.sources.dialect import Dialect
from pmvge.tables.sources.formats import declared_types


@pytest.mark.parametrize(
    ("dialect", "data", "options"),
    [
        ({"header": False}, b"1\ta\n2\tb\n", {"sep": "\t", "header": None}),
        ({"header": ("id", "name")}, b"1|a\n2|\n", {"sep": "|", "names": ["id", "name"]}),
        ({"encoding": "latin-1"}, "id;n\n1;Caf\u00e9\n".encode("latin-1"), {"sep": ";"}),
        ({"encoding": "cp1252"}, "id;n\n1;\u201c5 \u20ac\u201d\n".encode("cp1252"), {"sep": ";"}),
        ({"encoding": "gbk"}, "编号,片名\n1,流浪地球\n".encode("gbk"), {"sep": ","}),
        ({"encoding": "shift_jis"}, "id,n\n1,ソ能表\n".encode("shift_jis"), {"sep": ","}),
        ({"encoding": "utf-16-le"}, "id,n\n1,日\n".encode("utf-16-le"), {"sep": ","}),
        ({"header": False}, b"1::a::x\n2::b::y\n", {"sep": "::", "header": None}),
        ({"delimiter": " ", "header": False}, b"1 2\n3 4\n", {"sep": " ", "header": None}),
        ({"na_values": ("unknown", "-")}, b"id,x\n1,unknown\n-,2\n", {"na_values": ["-"]}),
    ],
)
def test_rows_are_those_of_pandas(write, rows, dialect, data, options) -> None:
    dialect = Dialect(**dialect)
    options = {"na_values": [], **options}
    options["na_values"] = [*options["na_values"], *dialect.na_values]
    wanted = pd.read_csv(
        io.BytesIO(data), dtype=str, encoding=dialect.encoding, engine="python", **options
    )
    types, found = rows(Source(write("t.dat", data), dialect=dialect))
    cells = wanted.astype(object).where(wanted.notna(), None)
    assert found == [tuple(row) for row in cells.itertuples(index=False)]
    names = [f"column{name + 1}" if isinstance(name, int) else name for name in wanted]
    assert list(types) == names


def test_a_short_list_of_names_is_for_the_first_columns(write, rows) -> None:
    source = Source(write("t.csv", "1,2,3\n"), dialect=Dialect(header=("user",)))
    assert list(rows(source)[0]) == ["user", "column2", "column3"]


def test_a_decimal_comma_is_a_point_in_numbers_only(write, rows) -> None:
    text = "a;b;c\n3,5;x,y;1,2,3\n-0,25;7;+1,0\n"
    found = rows(Source(write("t.csv", text), dialect=Dialect(decimal=",")))[1]
    assert found == [("3.5", "x,y", "1,2,3"), ("-0.25", "7", "+1.0")]


def test_missing_values_of_other_sources(tmp_path, rows) -> None:
    table = pa.table({"id": [1, -1], "x": ["unknown", "a"], "v": [[1.0], [2.0]]})
    pq.write_table(table, tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as db:
        db.register("given", table)
        db.execute("CREATE TABLE t AS SELECT * FROM given")
    dialect = Dialect(na_values=("unknown", "-1", "a'b"))
    wanted = [(1, None, [1.0]), (None, "a", [2.0])]
    for source in (
        Source("t.parquet", dialect=dialect),
        Source(database="t.duckdb", table="t", dialect=dialect),
        Source(frame=table, dialect=dialect),
        Source(query="SELECT * FROM 't.parquet'", dialect=dialect),
    ):
        assert rows(source)[1] == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "utf-99"}, "unknown encoding 'utf-99': expected the name of .* \"cp1252\""),
        ({"encoding": "base64"}, "unknown encoding 'base64'"),
        ({"encoding": 8}, "unknown encoding 8"),
        ({"decimal": ";"}, "unknown decimal ';'"),
        ({"delimiter": "12345"}, "delimiter: expected one to four characters, got '12345'"),
        ({"header": ["a", "A"]}, "header: expected true, false or a list of distinct column names"),
        ({"header": "no"}, "header: expected true, false or a list"),
        ({"na_values": "unknown"}, "na_values: expected a list of strings, got 'unknown'"),
        ({"na_values": [1]}, "na_values: expected a list of strings"),
    ],
)
def test_invalid_options_are_errors(options, message) -> None:
    with pytest.raises(TableError, match=f"^here: {message}"):
        Dialect.of("here", options)


@pytest.mark.parametrize(
    ("given", "name"),
    [("UTF8", "utf-8"), ("Windows-1252", "cp1252"), ("ISO-8859-1", "latin-1"), ("GBK", "gbk")],
)
def test_encodings_have_one_name(given, name) -> None:
    assert Dialect.of("films.csv", {"encoding": given}).encoding == name


def test_a_wrong_encoding_says_what_to_do(write, rows) -> None:
    write("t.csv", "id,n\n1,流浪地球\n2,“5 €”\n".encode("gb18030"))
    fixes = r'set the encoding of .* encoding = "cp1252".* iconv -f CP1252 -t UTF-8 OLD > NEW'
    for encoding in ("ascii", "shift_jis"):
        with pytest.raises(TableError, match=rf"t.csv: .*{fixes}"):
            rows(Source("t.csv", dialect=Dialect(encoding=encoding)))


def test_a_recbole_header_gives_names_and_types(write, rows, tmp_path) -> None:
    name = write("ml.inter", "user_id:token\tx:float_seq\n1\t0.5 1\n")
    assert list(rows(name)[0]) == ["user_id", "x"]
    assert declared_types(Source(name), tmp_path) == {"user_id": "token", "x": "float_seq"}
    mixed = write("mixed.csv", "user_id:token,time:of day\n1,2\n")
    assert list(rows(mixed)[0]) == ["user_id:token", "time:of day"]
    assert declared_types(Source(mixed), tmp_path) == {}


def test_dialects_are_written_to_projects_and_saved_with_graphs(tmp_path, write, same) -> None:
    write("u.dat", "1|3,5|?\n2|4|b\n3|?|b\n".encode("latin-1"))
    write("l.dat", "1 7\n2 8\n3 7\n")
    users = Dialect(header=False, encoding="latin-1", decimal=",", na_values=("?",))
    links = Dialect(delimiter=" ", header=("user", "film"))
    project = Project(
        {
            "u": ViewTable(
                Source("u.dat", dialect=users),
                "column1",
                {"column2": Feature("numeric"), "column3": Feature("category")},
            ),
            "f": ViewTable(),
        },
        {("u", "f"): LinkTable(Source("l.dat", dialect=links), ("user", "film"))},
        folder=tmp_path,
    )
    (tmp_path / "pmvge.toml").write_text(project_text(project))
    graph = read_tables(read_project(tmp_path / "pmvge.toml")).graph
    same(graph, read_tables(project).graph)
    assert graph.n_links == 3
    assert graph.tables["views"]["u"]["dialect"] == {
        "header": False, "encoding": "latin-1", "decimal": ",", "na_values": ["?"]
    }  # fmt: skip


def test_duckdb_shows_no_progress_bar(tmp_path) -> None:
    with connect(tmp_path) as db:
        assert fetch_all(db, "SELECT current_setting('enable_progress_bar')") == [(False,)]


@pytest.mark.parametrize("encoding", ["cp1252", "gb18030", "cp932", "cp1251", "ascii"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["no mark", "mark"])
def test_utf_8_overrules_the_encoding(write, rows, encoding, mark) -> None:
    text = mark + "id,n\n" + "1,a\n" * 300_000 + "2,流浪地球\n3,Été\n"
    write("t.csv", text.encode())
    assert rows(Source("t.csv", dialect=Dialect(encoding=encoding)))[1][-2:] == [
        ("2", "流浪地球"),
        ("3", "Été"),
    ]


def test_a_single_letter_in_utf_8(write, rows) -> None:
    write("t.csv", "id,n\n1,Café\n".encode())
    assert rows(Source("t.csv", dialect=Dialect(encoding="cp1252")))[1] == [("1", "Café")]
    write("t.csv", "id,sex\n1,女\n".encode("gbk"))  # the bytes are valid UTF-8, too
    assert rows(Source("t.csv", dialect=Dialect(encoding="gbk")))[1] == [("1", "女")]
