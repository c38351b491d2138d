"""Guess the encoding of a text file: UTF-8, an East Asian one, or that of Windows in the West."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pmvge.tables.sources.dialect import Dialect
from pmvge.tables.sources.files import open_unpacked, read_start
from pmvge.tables.sources.text_encoding import LATIN_1, utf8_letters, utf16_codec

SAMPLE = 1 << 16  # bytes of lines beyond ASCII that are decoded to compare encodings
COMMON = 0.9  # share of common characters in an ordinary text in East Asian languages
MIN_COMMON = 0.6  # share of common characters in a table of names
MIN_DISTINCT = 4  # such characters; two accented letters may be valid as one of them
IN_WORDS = re.compile(r"(?<=[A-Za-z])[^\0-\x7f]|[^\0-\x7f](?=[A-Za-z])")
MAX_IN_WORDS = 0.5  # share of characters next to a letter of ASCII, as accented letters are


def guess_encoding(path: Path) -> str:
    """Return the encoding of a text file: "utf-8" if it is valid, else the most likely one.

    All of it is tested for UTF-8, up to ``TESTED`` bytes: the first letter beyond ASCII may come
    late. A file in UTF-16 needs no encoding.
    """
    if utf16_codec(read_start(path)) is not None or utf8_letters(path) is not None:
        return Dialect.encoding
    return likely_encoding(_sample(path))


def likely_encoding(sample: bytes) -> str:
    """Return the likely encoding of a text that is not UTF-8.

    It is an East Asian one if the text is valid in it, has its common characters, and these are not
    inside words of ASCII letters; else Windows-1252, of which Latin-1 is a part; else Latin-1, in
    which every byte is valid.
    """
    shares = {encoding: _common_share(sample, encoding) for encoding in _EAST_ASIAN}
    for encoding, share in shares.items():
        if share >= COMMON:
            return encoding
    best = max(shares, key=shares.__getitem__)
    if shares[best] >= MIN_COMMON:
        return best
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return LATIN_1
    return "cp1252"


def _common_share(sample: bytes, encoding: str) -> float:
    """Return the share of common characters in an East Asian encoding; 0 if it is another one."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    letters = [c for c in text if not c.isascii() and c.isalpha()]
    common = [c for c in letters if _EAST_ASIAN[encoding](c)]
    if len({*common}) < MIN_DISTINCT or len(IN_WORDS.findall(text)) > MAX_IN_WORDS * len(letters):
        return 0.0
    if encoding == "euc_jp" and not any("\u3040" <= c <= "\u30ff" for c in common):
        return 0.0  # without kana it is taken for Chinese
    return len(common) / len(letters)


def _sample(path: Path) -> bytes:
    """Return lines of a file that have bytes beyond ASCII."""
    sample = b""
    with open_unpacked(path) as stream:
        for line in stream:
            if not line.isascii():
                sample += line
            if len(sample) >= SAMPLE:
                break
    return sample


def _rows(codec: str, first: int, last: int) -> Callable[[str], bool]:
    """Return a function that returns whether a character is in these rows of a character set.

    The row is the first of two bytes in ``codec``. Common characters have rows of their own.
    """

    def is_common(character: str) -> bool:
        code = character.encode(codec, "ignore")
        return len(code) == 2 and first <= code[0] <= last

    return is_common


_kanji = _rows("euc_jp", 0xA1, 0xCF)  # kana, and the first level of kanji
_simplified = _rows("gb2312", 0xB0, 0xD7)
_traditional = _rows("big5", 0xA4, 0xC6)
# The first encoding that fits is taken: Korean and Japanese texts are also valid in Chinese ones.
_EAST_ASIAN: dict[str, Callable[[str], bool]] = {
    "cp932": _kanji,  # Shift-JIS on Windows
    "euc_jp": _kanji,
    "cp949": _rows("euc_kr", 0xB0, 0xC8),  # EUC-KR on Windows; Hangul
    "big5": _traditional,
    # The successor of GBK and GB2312.
    "gb18030": lambda character: _simplified(character) or _traditional(character),
}
