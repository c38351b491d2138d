"""Encodings of text files: names of codecs, UTF-16, and copies in UTF-8, which DuckDB reads."""

from __future__ import annotations

import codecs
import io
import shutil
from collections.abc import Sequence
from pathlib import Path

import duckdb

from pmvge.errors import TableError, short
from pmvge.tables.sources.connection import temporary_file
from pmvge.tables.sources.files import PACKED, open_unpacked, packing, read_start

LATIN_1 = "latin-1"
TESTED = 1 << 28  # bytes of a file that are tested for UTF-8
MIN_DISTINCT = 4  # letters of two bytes; fewer are often valid in East Asian encodings, too
EXAMPLES = '"cp1252" (Windows, Western Europe), "gb18030" (Chinese) or "cp932" (Japanese)'


def encoding_name(where: str, given: object) -> str:
    """Return Python's name of a text encoding, such as cp1252 for Windows-1252.

    Raise TableError, which starts with ``where``, if Python has no such encoding.
    """
    try:
        name = codecs.lookup(given).name if isinstance(given, str) else ""
        "a".encode(name)  # fails for codecs of bytes, such as base64
    except (LookupError, ValueError) as error:
        raise TableError(
            f"{where}: unknown encoding {short(given)}: expected the name of a text encoding of "
            f'Python, such as "utf-8", {EXAMPLES}'
        ) from error
    return LATIN_1 if name == "iso8859-1" else name


def utf16_codec(start: bytes) -> str | None:
    """Return Python's codec of a text in UTF-16, from its first bytes; None for other encodings.

    Without a byte-order mark it is UTF-16 if the bytes are printable characters and blanks.
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for codec in ("utf-16-le", "utf-16-be") if b"\0" in start else ():
        try:
            text = codecs.getincrementaldecoder(codec)().decode(start)
        except UnicodeDecodeError:
            continue
        if "\n" in text and all(c.isprintable() or c.isspace() for c in text):
            return codec
    return None


def codec_of(path: Path, encoding: str) -> str:
    """Return Python's codec of a text file; what its bytes say overrules ``encoding``.

    They say UTF-16 or UTF-8 if there is a byte-order mark. Without one, a text beyond ASCII that is
    valid UTF-8 is UTF-8: one in another encoding is practically never valid. Only some characters
    in encodings of two bytes are, such as 女 in GBK, so for these a few letters do not suffice.
    """
    start = read_start(path)
    if (found := utf16_codec(start)) is not None:
        return found
    if encoding == "utf-8" or start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    letters = utf8_letters(path)
    has_two_bytes = len("é".encode().decode(encoding, "replace")) == 1
    if letters and (not has_two_bytes or len(letters) >= MIN_DISTINCT or max(letters) > "\u07ff"):
        return "utf-8-sig"
    return encoding


def utf8_letters(path: Path) -> set[str] | None:
    """Return characters beyond ASCII in a file of UTF-8; None if it is not valid UTF-8.

    The first ``TESTED`` bytes are tested. Not all characters are returned if they are many.
    """
    decoder, left = codecs.getincrementaldecoder("utf-8")(), TESTED
    letters: set[str] = set()
    try:
        with open_unpacked(path) as stream:
            while left > 0 and (chunk := stream.read(1 << 20)):
                text = decoder.decode(chunk)
                left -= len(chunk)
                if len(letters) < MIN_DISTINCT and not text.isascii():
                    letters |= {c for c in {*text} if not c.isascii()}
            if left > 0:
                decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return None
    return letters


def has_ascii_lines(codec: str) -> bool:
    """Return whether the lines of a text end with the byte of a line feed."""
    return "\n".encode(codec).removeprefix(codecs.BOM_UTF8) == b"\n"


def as_utf8(
    db: duckdb.DuckDBPyConnection, files: Sequence[Path], encoding: str, *, mark: bool
) -> list[Path]:
    """Return files that DuckDB reads: in UTF-8, and compressed if and only if their names say so.

    With ``mark`` they may start with a byte-order mark. Other files are copied to temporary ones.
    """
    return [
        path
        if (codec := codec_of(path, encoding)) == "utf-8-sig"
        and packing(path) == _packing_in_name(path)
        and (mark or not read_start(path).startswith(codecs.BOM_UTF8))
        else _copy_as_utf8(db, path, codec)
        for path in files
    ]


def _packing_in_name(path: Path) -> str:
    return ending if (ending := path.suffix.lower()) in PACKED else ""


def _copy_as_utf8(db: duckdb.DuckDBPyConnection, path: Path, codec: str) -> Path:
    """Copy a text file to a temporary one in UTF-8, without a byte-order mark."""
    target = temporary_file(db, ".csv")
    with (
        open_unpacked(path) as stream,
        io.TextIOWrapper(stream, codec, newline="") as text,
        target.open("w", encoding="utf-8", newline="") as copy,
    ):
        shutil.copyfileobj(text, copy, 1 << 20)
    return target
