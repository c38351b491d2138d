"""Damage bytes and JSON texts at random: flip bits, delete, repeat, move and insert pieces.

All random choices come from the generator that is passed in, so a seed gives the same bytes.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

Mutate = Callable[[random.Random, bytes, bytes], bytes]

# Pieces that readers often handle wrongly: quotes, line ends, invalid UTF-8, huge numbers.
PIECES = (
    b'"', b"'", b"\0", b"\0\0\0\0", b"\n", b"\r", b"\r\n", b"\n\n", b"\t", b",", b";", b"|", b" ",
    b"\\", b"\\u0000", b"#", b"=", b"[", b"]", b"{", b"}", b"[[", b"]]", b"{}", b"[]", b"%", b"*",
    b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc3", b"\xf0\x9f\x92", b"\xed\xa0\x80", b"\x1a",
    b"0", b"-1", b"1e308", b"1e309", b"-1e999", b"nan", b"inf", b"NaN", b"null", b"true", b"1.5",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"1" * 400,
    b"4294967296", b"1152921504606846976", b"00", b"0x10", b"1_000", b"\xd9\xa3", b"NA", b"",
    b"../../x", b"/etc/passwd", b"C:\\x", b"PAR1", b"PK\x03\x04", b"\x1f\x8b", b"id", b"a" * 300,
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 8,
)  # fmt: skip
NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
TEXT = re.compile(rb'"[^"\n]*"')
VALUES = (
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**40, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-308,
    1e308, "", "x", "\0", "../x", "mlp", "linear", "lookup", "identity", "inner", "cosine", [], {},
    [1], [[]], {"x": 1}, "9" * 5000, "1", "-1", [1, 2, 3, 4], "\ud800", "ü", [None], [0.5, "x"],
)  # fmt: skip


def _flip(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Flip some bits."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _byte(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Replace a byte with a random one."""
    at = rng.randrange(len(data) or 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _range(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 32, 200, len(data) + 1)))


def _delete(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Delete a range."""
    start, end = _range(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Repeat a range."""
    start, end = _range(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 20)) + data[end:]


def _swap(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Swap two adjacent ranges."""
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _truncate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Cut off the end, or the beginning."""
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.8 else data[at:]


def _insert(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Insert a piece."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(PIECES) + data[at:]


def _overwrite(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Overwrite bytes with a piece."""
    at, piece = rng.randrange(len(data) + 1), rng.choice(PIECES)
    return data[:at] + piece + data[at + len(piece) :]


def _number(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Replace a number in the text with a piece."""
    return _replace(rng, data, NUMBER, rng.choice(PIECES))


def _word(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Replace a quoted text with a piece, with or without quotes."""
    piece = rng.choice(PIECES)
    return _replace(rng, data, TEXT, piece if rng.random() < 0.3 else b'"' + piece + b'"')


def _replace(rng: random.Random, data: bytes, pattern: re.Pattern[bytes], new: bytes) -> bytes:
    found = [match.span() for match in pattern.finditer(data)]
    if not found:
        return data + new
    start, end = rng.choice(found)
    return data[:start] + new + data[end:]


def _lines(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Delete, duplicate or move a line."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = rng.randrange(len(lines))
    moved = rng.choice(([], [lines[at]], [lines[at]] * 2, [rng.choice(lines)]))
    where = rng.randrange(len(lines))
    rest = lines[:at] + lines[at + 1 :]
    return b"".join(rest[:where] + moved + rest[where:])


def _ends(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Change the line ends of all lines, or of the second half."""
    half = len(data) // 2 if rng.random() < 0.5 else 0
    end = rng.choice((b"\r\n", b"\r", b"\n\n", b"\0\n", b" \n"))
    return data[:half] + data[half:].replace(b"\n", end)


def _widen(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Append some columns, or very many."""
    names, *rows = data.splitlines()[:1000] or [b""]
    more = range(rng.choice((5, 250)))
    cells = b"".join(b"," + rng.choice((b"1", b"0.5", b"x", b"")) for _ in more)
    names += b"".join(b",more %d" % i for i in more)
    return b"\n".join([names, *(row + cells for row in rows)])


def _nest(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Insert deep nesting that is never closed."""
    deep = rng.choice((b"[", b"{", b"(", b'{"a":', b"[[", b"a.")) * rng.choice((50, 1500, 30_000))
    at = rng.randrange(len(data) + 1)
    return data[:at] + deep + data[at:]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Join the beginning of one file and the end of another."""
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _integer(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Overwrite bytes with an integer, as if a length or an offset were wrong."""
    size = rng.choice((1, 2, 4, 8))
    at = rng.randrange(max(1, len(data) - size + 1))
    value = rng.choice((0, 1, 2**7, 2**8 - 1, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1))
    return data[:at] + (value % 256**size).to_bytes(size, "little") + data[at + size :]


MUTATIONS: dict[str, Mutate] = {
    "flip": _flip, "byte": _byte, "delete": _delete, "repeat": _repeat, "swap": _swap,
    "truncate": _truncate, "insert": _insert, "overwrite": _overwrite, "number": _number,
    "word": _word, "lines": _lines, "ends": _ends, "widen": _widen, "nest": _nest,
    "splice": _splice, "length": _integer,
}  # fmt: skip


def mutate(rng: random.Random, data: bytes, other: bytes) -> tuple[bytes, list[str]]:
    """Return the bytes after one or a few mutations, and the names of these."""
    names = rng.choices([*MUTATIONS], k=rng.choice((1, 1, 1, 2, 3, 5)))
    for name in names:
        data = MUTATIONS[name](rng, data, other)
    return data, names


def mutate_json(rng: random.Random, text: bytes) -> tuple[bytes, list[str]]:
    """Return a JSON text after one or a few changes of its values, and these changes."""
    content, changes = json.loads(text), []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        values = list(_values(content))
        if not values:
            break
        parent, key, path = rng.choice(values)
        changes.append(_change(rng, parent, key, path, values))
    return json.dumps(content).encode(), changes


def _values(content, path=""):  # type: ignore[no-untyped-def]
    """Yield the parent, the key and the path of every value in nested lists and objects."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield content, key, f"{path}/{key}"
        if isinstance(value, dict | list):
            yield from _values(value, f"{path}/{key}")


def _change(rng, parent, key, path, values) -> str:  # type: ignore[no-untyped-def]
    how = rng.choice(("value", "value", "value", "number", "delete", "repeat", "rename", "copy"))
    value = parent[key]
    if how == "delete":
        del parent[key]
    elif how == "repeat" and isinstance(parent, list):
        parent.insert(key, value)
    elif how == "rename" and isinstance(parent, dict):
        parent[rng.choice(("", "x", "ü", f"{key} ", "id"))] = parent.pop(key)
    elif how == "number" and isinstance(value, int | float):
        parent[key] = rng.choice((value + 1, value - 1, -value, value * 10**9, value / 2))
    elif how == "copy":
        other, at, _ = rng.choice(values)
        # A copy: an object that contains itself cannot be written as JSON.
        parent[key] = json.loads(json.dumps(other.get(at) if isinstance(other, dict) else None))
    else:
        parent[key] = rng.choice(VALUES)
    return f"{path}: {how}"
