"""The content of a file says its format, compression and encoding, not its name."""

import bz2
import gzip
import json
import zipfile

import numpy as np
import openpyxl
import pyarrow as pa
import pytest

from pmvge.errors import TableError
from pmvge.tables import Dialect, Source, sketch_project

TEXT = "id,b\n007,é\n2,\n"
TABLE = [("007", "é"), ("2", None)]
OBJECTS = [{"id": "007", "b": "é"}, {"id": "2", "b": None}]


def refused(rows, source) -> str:
    with pytest.raises(TableError) as caught:
        rows(source)
    return str(caught.value)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.GZ", "t.csv.zst"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_compressed_files_have_any_name(write, rows, name, pack) -> None:
    assert rows(write(name, pack(TEXT.encode())))[1] == TABLE
    lines = "\n".join(json.dumps(row) for row in OBJECTS)
    assert sorted(rows(write(name, pack(lines.encode())))[1][0]) == ["007", "é"]


def test_a_glob_of_compressed_and_other_files(write, rows) -> None:
    write("g1.csv", gzip.compress(b"a,b\n1,x\n"))
    write("g2.csv", "a,b\n2,y\n")
    write("g3.csv.gz", gzip.compress(b"a,b\n3,z\n"))
    assert sorted(rows("g*")[1]) == [("1", "x"), ("2", "y"), ("3", "z")]


def test_other_formats_are_named_with_what_to_do(write, rows, tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "t.csv", "w") as archive:
        archive.writestr("films.csv", TEXT)
    assert "a zip archive or a workbook; unpack it, or name it .xlsx" in refused(rows, "t.csv")
    openpyxl.Workbook().save(tmp_path / "book.ods")
    assert "a workbook; save it as .xlsx" in refused(rows, "book.ods")
    for data, found in (
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "or one with a password; save it as"),
        (bz2.compress(TEXT.encode()), "a bzip2 file; unpack it"),
        (b"SQLite format 3\0" + bytes(90), "a SQLite database; name it as database"),
        (bytes(8) + b"DUCK" + bytes(90), "a DuckDB database; name it as database"),
        (b"\n<!doctype html><html></html>", "HTML or XML; export the table as CSV"),
    ):
        assert f"got another format: {found}" in refused(rows, write("t.xlsx", data)).replace(
            "an .xls workbook, ", ""
        )


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_json_in_other_encodings(write, rows, tmp_path, codec, lines) -> None:
    texts = [json.dumps(row, ensure_ascii=False) for row in OBJECTS]
    text = "\n".join(texts) if lines else f"[{', '.join(texts)}]\n"
    source = Source(write("t.json", text.encode(codec)), dialect=Dialect(encoding="cp1252"))
    types, found = rows(source)
    assert [dict(zip(types, row, strict=True)) for row in found] == OBJECTS


def test_init_guesses_the_encoding_of_json(write, tmp_path) -> None:
    films = [{"film": f"f{k}", "title": f"été {k}"} for k in range(30)]
    seen = [{"film": f"f{k % 30}", "user": f"u{k % 7}"} for k in range(90)]
    write("films.json", json.dumps(films, ensure_ascii=False).encode("cp1252"))
    write("seen.json", json.dumps(seen))
    found = sketch_project(tmp_path)
    assert found.project.views["films"].source.dialect.encoding == "cp1252"
    assert any("films.json is not UTF-8: it is read as cp1252" in note for note in found.notes)
    found = sketch_project(tmp_path, {"films.json:encoding": "latin-1"})
    assert found.project.views["films"].source.dialect.encoding == "latin-1"
    with pytest.raises(TableError, match=r"films.json:encoding: unknown encoding"):
        sketch_project(tmp_path, {"films.json:encoding": "latin-99"})


def test_json_keys_that_differ_in_case(write, rows) -> None:
    keys = [{"id": 1, "Year": 1990}, {"id": 2, "year": 1991}]
    assert "t.json: expected keys that differ in more than case, got 'Year'" in refused(
        rows, write("t.json", json.dumps(keys))
    )
    numbered = [{"id": 1, "year": 1990, "year_1": 5}, {"id": 2, "year": 1991}]
    assert list(rows(write("n.json", json.dumps(numbered)))[0]) == ["id", "year", "year_1"]
    empty = [{"id": 1, "year": 1990, "year_1": None}, {"id": 2, "year": 1991, "year_1": None}]
    assert list(rows(write("e.json", json.dumps(empty)))[0]) == ["id", "year", "year_1"]


def test_numbers_that_repeat_are_no_header(write, rows) -> None:
    assert "got '1'; set header = false if the file has no header" in refused(
        rows, write("t.csv", "1,s1,1\n2,s2,2\n3,s3,3\n")
    )


def test_an_array_of_one_number_per_row_is_a_view(rows, tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.array([0.5, 1.5]))
    assert rows("t.npy") == ({"row number": "BIGINT", "vector": "DOUBLE"}, [(0, 0.5), (1, 1.5)])


def test_init_does_not_ask_about_an_array_with_other_rows(write, tmp_path) -> None:
    write("films.csv", "film,year\n" + "".join(f"f{k},{1950 + k}\n" for k in range(40)))
    write("seen.csv", "film,user\n" + "".join(f"f{k % 40},u{k % 19}\n" for k in range(300)))
    np.save(tmp_path / "posters.npy", np.zeros((39, 4)))
    assert sketch_project(tmp_path).skipped["posters.npy"] == "no link table refers to it"
