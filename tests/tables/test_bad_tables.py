"""Tables that cannot be used raise a one-line error that names the table and the problem."""

import gzip
import re
import sqlite3

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pmvge.errors import TableError
from pmvge.tables import LinkTable, Project, Source, ViewTable, read_tables


@pytest.fixture
def folder(tmp_path, write):
    write("films.csv", "film,year\na,1999\nb,2004\nc,2010\n")
    write("users.csv", "user,age\n1,30\n2,40\n")
    write("seen.csv", "user,film,times\n1,a,1\n2,b,2\n")
    pq.write_table(pa.table({"film": ["a", "b"], "year": [1, 2]}), tmp_path / "films.parquet")
    with sqlite3.connect(tmp_path / "shop.db") as db:
        pd.DataFrame({"film": ["a"], "year": [1]}).to_sql("films", db, index=False)
    db.close()
    return tmp_path


def failure(folder, films="films.csv", seen="seen.csv", *, features=None, columns=("user", "film")):
    """Return the message of the TableError that reading the tables raises."""
    project = Project(
        {
            "films": ViewTable(
                films, "film", {"year": "numeric"} if features is None else features
            ),
            "users": ViewTable("users.csv", "user", {}),
        },
        {("users", "films"): LinkTable(seen, columns, "times")},
        folder=folder,
    )
    with pytest.raises(TableError) as caught:
        read_tables(project)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700
    return message


HEAD = "film,year\n"

FILES = {
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "x.csv: expected a CSV"),
    "a zip": (b"PK\x03\x04 and so on", "x.csv: expected a CSV"),
    "half a letter of UTF-16": (
        "film,year\na,1\n".encode("utf-16")[:-1],
        "x.csv: cannot be read: .*utf-16",
    ),
    "empty": (b"", "x.csv: is empty; expected a CSV"),
    "blanks": (b" \n \n", "x.csv: is empty; expected a CSV"),
    "an empty first line": (b"\n\nfilm,year\n", "x.csv: expected a header in the first line"),
    "a header": (HEAD, "view films (x.csv): the table has no rows"),
    "a header without end": (HEAD[:-1], "view films (x.csv): the table has no rows"),
    "a long row": (HEAD + "a,1\nb,2,3\n", "(x.csv): cannot be read: .*Line: 3 .*b,2,3 .*: 2 Fo"),
    "a short row": (HEAD + "a,1\nb\n", "(x.csv): cannot be read: .*Line: 3 .*Columns: 2 Found: 1"),
    "a quote without end": (HEAD + 'a,"1\nb,2\n', "(x.csv): cannot be read: .*unterminated quote"),
    "Latin letters": (
        HEAD.encode() + b"\xe9,1\n",
        '(x.csv): cannot be read: .*not utf-8 encoded.*set the encoding .*"cp1252".* iconv -f',
    ),
    "a Latin header": (b"film,\xe9t\xe9\na,1\n", "x.csv: cannot be read: .*utf-8"),
    "a name twice": (
        b"film,year,Film\na,1,2\n",
        "x.csv: the first line repeats the column name 'Film'",
    ),
    "a column without name": (
        b"film,year,\na,1,2\n",
        "x.csv: column 3 has 1 values, but no name .* starts with 'film'; name it, or .* a title",
    ),
    "old line ends": (b"film,year\ra,1\r", "x.csv: the first line is not a CSV header"),
    "words as numbers": (HEAD + "a,1\nb,two\n", "column 'year': expected numbers, .* 1 .* 'two'"),
    "an empty id": (HEAD + "a,1\n,2\n", "(x.csv): id column 'film': 1 of 2 ids are empty"),
    "an id twice": (HEAD + "a,1\na,2\nb,1\n", "id column 'film': .*once, but 1 rows .* 'a'"),
    "another column": (b"film,yaer\na,1\n", "no column 'year'; .*did you mean 'yaer'"),
    "another id": (b"films,year\na,1\n", "no column 'film'; the columns are 'films', 'year'; did"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_bad_csv_files(folder, write, content, message) -> None:
    found = failure(folder, write("x.csv", content))
    assert re.search(message.replace("(x.csv)", r"\(x.csv\)"), found), found


def test_a_spreadsheet(folder, write) -> None:
    assert "x.xlsx: cannot be read: " in failure(folder, write("x.xlsx", b"PK\x03\x04"))
    assert "save it as .xlsx, without one" in failure(folder, write("x.xls", b"\xd0\xcf\x11\xe0\0"))


def test_the_error_for_a_missing_file_lists_the_files(folder, write) -> None:
    write("more.csv.gz", gzip.compress(b"a,b\n"))
    message = failure(folder, "film.csv")
    assert message.startswith(f"film.csv: no such file in {folder}; there are ")
    for name in ("films.csv", "films.parquet", "seen.csv", "more.csv.gz"):
        assert name in message
    assert "none*.csv: no such file" in failure(folder, "none*.csv")
    (folder / "sub").mkdir()
    assert "sub: is a folder; name its files, such as sub/*.csv" in failure(folder, "sub")
    for name, glob in ((".", "*.csv"), ("./", "*.csv"), ("/", "/*.csv"), ("..", "../*.csv")):
        assert f"{name}: is a folder; name its files, such as {glob}" in failure(folder, name)
    for name in ("", "a**.csv", "a\0.csv"):
        assert "film" not in failure(folder, name) or "name of a file" in failure(folder, name)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"film,year\na,1\n" * 100)[:15],
        gzip.compress(b"film,year\na,1\n" * 100)[:-6],
        gzip.compress(b"film,year\n")[:10] + b"\xff" * 20,
    ],
    ids=["truncated early", "truncated late", "damaged"],
)
def test_bad_gzip_files(folder, write, content) -> None:
    assert "x.csv.gz" in failure(folder, write("x.csv.gz", content))


@pytest.mark.parametrize("address", ["mysql://u:secret@h/shop:films", "https://h/films.csv"])
def test_other_addresses(folder, address) -> None:
    message = failure(folder, address)
    assert "://...: expected a file or postgresql://HOST/NAME:TABLE" in message
    assert "secret" not in message


def test_damaged_parquet_files(folder, write) -> None:
    whole = (folder / "films.parquet").read_bytes()
    for damaged in (whole[:100], whole[: len(whole) // 2], whole[:-4] + b"xxxx"):
        message = failure(folder, write("x.parquet", damaged))
        assert message.startswith("x.parquet: cannot be read: ")
        assert "SELECT" not in message
        assert "CSV" not in message


def test_databases(folder, write) -> None:
    assert "none.db: no such database file" in failure(folder, "none.db:films")
    assert "shop.db: unknown table 'film': expected one of 'films'" in failure(
        folder, "shop.db:film"
    )
    assert "name it as database" in failure(folder, "shop.db")
    duckdb.connect(str(folder / "empty.duckdb")).close()
    assert "expected a table 'films', found no tables" in failure(folder, "empty.duckdb:films")
    write("x.db", "some text that is long enough")
    assert "x.db: is neither a DuckDB nor a SQLite" in failure(folder, "x.db:films")
    write("cut.db", (folder / "shop.db").read_bytes()[:3000])
    assert failure(folder, "cut.db:films").startswith("cut.db:films: cannot be read: ")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "query: cannot be read: .*syntax error at or near"),
        ("SELECT yaer FROM 'films.csv'", 'query: .*"yaer" not found.*"year"'),
        ("SELECT * FROM 'film.csv'", "query: .*film.csv"),
        ("SELECT * FROM films", "query: .*films does not exist"),
    ],
)
def test_bad_queries(folder, query, message) -> None:
    assert re.search(message, failure(folder, Source(query=query)))


@pytest.mark.parametrize(
    ("query", "message"),
    [("SELEC 1", "syntax error"), ("-- nothing", "selects rows"), ("SELECT x FROM films", "x")],
)
def test_bad_queries_to_sqlite(folder, query, message) -> None:
    found = failure(folder, Source(database="shop.db", query=query))
    assert found.startswith("shop.db (query): ")
    assert message in found


LINKS = {
    "words": ("1,a,one\n", "weight column 'times': expected numbers, but 1 are not, such as 'one'"),
    "commas": (
        '1,a,"1,5"\n',
        "expected numbers, but 1 are not, such as '1,5' in row 1; if 1,5 means 1.5, set decimal",
    ),
    "negative": ("1,a,1\n1,b,-2\n", "expected weights >= 0, but 1 are not, such as '-2'"),
    "infinite": ("1,a,inf\n", "expected finite weights, but 1 are not, such as 'inf'"),
    "no rows": ("", "links users,films .seen.csv.: the table has no rows"),
    "all zero": ("1,a,0\n", "none of its 1 rows can be used: 1 with weight zero"),
    "no ids": (",a,1\n", "none of its 1 rows can be used: 1 with an empty id"),
    "unknown ids": (
        "7,a,1\n8,x,1\n9,y,1\n6,z,1\n",
        "none of its 4 rows can be used: 4 with an unknown id; view 'users' has ids like '1', '2', "
        "the links have '6', '7', '8'; view 'films' has ids like 'a', 'b', 'c', the links have "
        "'x', 'y', 'z'",
    ),
}


@pytest.mark.parametrize(("rows", "message"), LINKS.values(), ids=LINKS)
def test_bad_links(folder, write, rows, message) -> None:
    write("seen.csv", f"user,film,times\n{rows}")
    found = failure(folder)
    assert re.search(message, found), found
    assert found.startswith("links users,films (seen.csv): ")


def test_unknown_columns_of_links(folder) -> None:
    message = failure(folder, columns=("usr", "film"))
    assert message.startswith("links users,films (seen.csv): no column 'usr'; the columns are ")
    assert message.endswith("did you mean 'user'?")


def test_a_bad_value_in_a_late_row_is_found(folder, write) -> None:
    rows = "".join(f"f{at},{at}\n" for at in range(60_000))
    message = failure(folder, write("x.csv", f"{HEAD}{rows}g,not a number\n"))
    assert "such as 'not a number'" in message


def test_frames_of_mixed_types(folder) -> None:
    message = failure(folder, pd.DataFrame({"film": ["a", 1], "year": [1, 2]}))
    assert message.startswith("DataFrame: expected a pandas, polars or Arrow table whose columns")


def test_a_file_without_a_header_is_refused(folder, write) -> None:
    write("bare.csv", "31336,0,1\n1061127,1,0\n")
    assert "expected column names in the first line, got '31336'" in failure(
        folder, films="bare.csv"
    )


def test_mixed_line_endings_of_a_compressed_file(folder) -> None:
    with gzip.open(folder / "both.csv.gz", "wb") as stream:
        stream.write(b"film,year\r\na,1\r\nb,2\nc,3\r\n")
    message = failure(folder, films="both.csv.gz")
    assert "(both.csv.gz): cannot be read: " in message
    assert "the quotes, the line endings (LF or CRLF, not both)" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"film": "a"}', r"view films \(x.csv\): no column 'year'"),
        ("[1, 2]", "x.csv: expected a list of objects, or one object per line, got other values"),
        ('{"film": "a", "year": 1}\n{"film": ', "x.csv: cannot be read: "),
        ("<html><body>films</body></html>", "x.csv: expected a CSV"),
    ],
)
def test_bad_json_and_html(text, message, folder, write) -> None:
    write("x.csv", text)
    assert re.search(message, failure(folder, films="x.csv"))
