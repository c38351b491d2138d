"""Text files in which some lines end in CR LF and others in LF."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pmvge.tables.sources import line_endings
from pmvge.tables.sources.connection import connect
from pmvge.tables.sources.line_endings import has_mixed_endings
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.staging import stage


def rows_of(path: Path) -> list[tuple[str, ...]]:
    with connect(path.parent) as db:
        stage(db, "raw", Source(path.name), path.parent)
        return db.sql("SELECT * FROM raw").fetchall()


ROWS = [(f"u{n}", f"likes, {n}" if n % 2 else "films", str(n)) for n in range(70)]


def text(rows: list[tuple[str, ...]], quote: str, end: str) -> str:
    return "".join(f"{a},{quote}{b}{quote},{c}{end}" for a, b, c in rows)


@pytest.mark.parametrize(("first", "later"), [("\r\n", "\n"), ("\n", "\r\n")])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_lines_that_were_appended(tmp_path, monkeypatch, first, later, quote, encoding, chunk):
    monkeypatch.setattr(line_endings, "CHUNK", chunk)
    rows = [(a, b if quote else b.replace(",", ""), c) for a, b, c in ROWS]
    path = tmp_path / "users.csv"
    both = f"id,likes,age{first}{text(rows[:60], quote, first)}{text(rows[60:], quote, later)}"
    path.write_bytes(both.encode(encoding))
    assert rows_of(path) == rows


def test_the_last_line_may_lack_an_ending(tmp_path):
    path = tmp_path / "users.csv"
    both = "id,likes,age\r\n" + text(ROWS[:-1], '"', "\r\n") + text(ROWS[-1:], '"', "")
    path.write_bytes(both.encode())
    assert not has_mixed_endings(path)
    path.write_bytes(both.encode() + b"\nu70,,1\n")
    assert has_mixed_endings(path)
    assert rows_of(path) == [*ROWS, ("u70", None, "1")]


@pytest.mark.parametrize(("end", "inner"), [("\r\n", "\n"), ("\n", "\r\n"), ("\n", "\n")])
def test_line_breaks_in_cells_stay(tmp_path, end, inner):
    rows = [(a, f"{b}{inner}more", c) for a, b, c in ROWS]
    path = tmp_path / "users.csv"
    path.write_bytes((f"id,likes,age{end}" + text(rows, '"', end)).encode())
    assert not has_mixed_endings(path)
    assert rows_of(path) == rows


def test_a_carriage_return_before_the_end_of_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(line_endings, "CHUNK", 1)
    path = tmp_path / "users.csv"
    path.write_bytes(b"id,age\r\n1,2\r\r\n3,4\r\n")
    assert not has_mixed_endings(path)


def test_compressed_files_are_not_tested(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\r\n1,2\n")[:-9])  # cannot be read
    assert not has_mixed_endings(tmp_path / "t.csv.gz")
