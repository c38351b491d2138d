"""Delimiters, encodings and headers of text files."""

import gzip

import pytest

from pmvge.errors import TableError
from pmvge.tables import sketch_project
from pmvge.tables.guessing.text_files import guess_header, sniff_text


@pytest.mark.parametrize(
    ("name", "text", "delimiter", "cells"),
    [
        ("a.csv", "a,b\n1,2\n", None, 2),  # None: as the reader guesses from the first line
        ("a.dat", "1\t2,5\n3\t4,5\n", None, 2),
        ("a.csv", "1;3,5\n2;4,5\n", ";", 2),
        ("a.csv", "3,5;2,5\n1,5;4,5\n", ";", 2),
        ("a.dat", "1::2::3\n4::5::6\n", None, 3),
        ("edges.txt", "1 2\n3 4\n", " ", 2),
        ("a.txt", 'a,b\n"x, y","p\nq"\n', None, 2),
        ("a.csv", "a,b\r\n1,2\r\n", None, 2),
        ("a.item", "1|Copycat (1995)|01-Jan-1995||x, y\n2|Heat|02-Jan-1995||z, w\n", None, 5),
    ],
)
def test_delimiters(tmp_path, name, text, delimiter, cells) -> None:
    (tmp_path / name).write_bytes(text.encode())
    found = sniff_text(tmp_path / name)
    assert found.dialect.delimiter == delimiter
    assert {len(row) for row in found.rows} == {cells}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("README", b"About these data.\nThey are, for example,\nfree.\n"),
        ("u.occupation", b"artist\ndoctor\n"),
        ("a.dat", b"1\t2\n3\n"),
        ("b.dat", b"1\t2\n\0\t4\n"),
    ],
)
def test_other_files_are_no_tables(tmp_path, name, content) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=f"{name}: (not a table|expected a text file)"):
        sniff_text(tmp_path / name)


def test_encodings(tmp_path) -> None:
    rows = "".join(f"{n}|a\n" for n in range(300_000))
    for encoding in ("utf-8", "cp1252"):  # the only letter beyond ASCII is in the last line
        (tmp_path / "a.dat").write_bytes((rows + "1|é\n").encode(encoding))
        assert sniff_text(tmp_path / "a.dat").dialect.encoding == encoding
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("\ufeffid,n\n1,é\n".encode()))
    found = sniff_text(tmp_path / "a.csv.gz")
    assert (found.dialect.encoding, found.rows[0]) == ("utf-8", ["id", "n"])


def test_rows_that_are_wider_than_the_first_characters(tmp_path) -> None:
    row = ",".join("01" * 100_000)
    (tmp_path / "a.dat").write_text(f"{row}\n" * 12)
    found = sniff_text(tmp_path / "a.dat")
    assert len(found.rows[0]) == 200_000
    assert (len(found.rows) > 2, found.header) == (True, False)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("id,x;1,2;2,3", True),
        ("user_id:token,x:float;1,2", True),
        (",x;0,a;1,b", True),  # the index of pandas
        ("0,1,2,3;5,6,7,8;1,2,3,4", True),  # names of pandas
        ("0,1;1,2;2,0", False),
        ("1,2;1,3", False),
        ("1,a;2,b", False),
        ("f1,comedy;f2,drama;f3,comedy", False),
        ("film_id,genre;f1,comedy;f2,drama", True),
        ("anna,berta;n1,n2;n3,n4", True),
        ("anna,berta;anna,carl;carl,anna", False),
        ("city,land;Berlin,Germany;Paris,France", True),
        ("Toy Story,Comedy;Heat,Crime;Alien,Horror", None),
        ("id,2019,2020;1,2,3;2,3,4", None),
        ("u1,NA,de;u2,23,fr;u3,30,de", None),
        ("u1,,de;u2,23,fr;u3,30,de", None),
        ("u1,unknown,de;u2,23,fr;u3,30,de", None),
        ("u1,?,de;u2,23,fr;u3,30,de", None),
        ("a,b", True),
        ("film_id,title,;f1,Heat,;f2,Alien, ", True),  # the last column is empty
    ],
)
def test_headers(text, header) -> None:
    assert guess_header([line.split(",") for line in text.split(";")]) is header


def test_a_title_is_no_row_of_data(tmp_path) -> None:
    (tmp_path / "films.csv").write_text("My films,,\nid,title,year\n" + "f1,Alien,1979\n" * 9)
    (tmp_path / "seen.csv").write_text("id,user\n" + "f1,u1\nf2,u2\n" * 9)
    reason = sketch_project(tmp_path).skipped["films.csv"]
    assert "if the first line is a title, delete the lines above the names" in reason


def test_init_without_links_names_files_that_it_could_not_read(tmp_path) -> None:
    (tmp_path / "films.csv").write_text("film,year\nf1,1\nf2,2\n")
    (tmp_path / "seen.csv.gz").write_bytes(gzip.compress(b"film,user\nf1,u1\n" * 50)[:-9])
    with pytest.raises(TableError, match=r"no link table found: .*; left out seen.csv.gz: cannot"):
        sketch_project(tmp_path)
