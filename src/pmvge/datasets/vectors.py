"""Word vectors in the text formats of GloVe and word2vec.

A line is ``word v1 v2 ... vp``, separated by single spaces. word2vec writes a first line ``n p``,
GloVe does not. Files have millions of lines, so only the lines of requested words are parsed, but
every line must have p numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import InputError, one_line

Vector = NDArray[np.float32]
SEPARATORS = re.compile(r"[-+_\s]+")  # between the words of a name


def load_vectors(
    path: str | Path, names: Sequence[str], parts: Mapping[str, Sequence[str]] | None = None
) -> Vector:
    """Return the vectors of ``names``, (n, p), in their order.

    The vector of a name that is not a word of the file is the mean of its words: those that
    ``parts`` lists for it, else those between hyphens, plus signs, underscores and spaces. Of
    several lines with the same word the first is used. Raise InputError if a name has no vector or
    the file is invalid.
    """
    path = Path(path)
    words_of = {name: _words(name, parts or {}) for name in names}
    wanted = {word for name, words in words_of.items() for word in (name, *words)}
    word_vectors = read_words(path, wanted)
    rows, missing = [], []
    for name, words in words_of.items():
        if name in word_vectors:
            rows.append(word_vectors[name])
        elif words and all(word in word_vectors for word in words):
            rows.append(np.mean([word_vectors[word] for word in words], axis=0, dtype=np.float32))
        else:
            missing.append(" + ".join(words) if words else name)
    if missing:
        raise InputError(f"{path}: no vectors for {len(missing)} names: {', '.join(missing)}")
    vectors = dict(zip(words_of, rows, strict=True))
    return np.array([vectors[name] for name in names], np.float32).reshape(len(names), -1)


def _words(name: str, parts: Mapping[str, Sequence[str]]) -> list[str]:
    words = parts.get(name) or [word for word in SEPARATORS.split(name) if word]
    return [] if list(words) == [name] else list(words)


def read_words(path: str | Path, words: Iterable[str]) -> dict[str, Vector]:
    """Return the vectors of those ``words`` that the file contains.

    Raise InputError if the file cannot be read or is invalid.
    """
    path = Path(path)
    wanted = {word.encode(): word for word in words}
    vectors: dict[str, Vector] = {}
    try:
        with path.open("rb") as stream:
            for number, word, values in _lines(path, stream):
                if (name := wanted.get(word)) is not None and name not in vectors:
                    vectors[name] = parse_numbers(f"{path}, line {number}", values)
    except OSError as error:
        raise InputError(f"{path}: cannot read word vectors: {error}") from error
    return vectors


def _lines(path: Path, stream: BinaryIO) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yield the number of each line, its word, and its p values as bytes."""
    p, announced, count = 0, -1, 0
    for number, line in enumerate(stream, start=1):
        text = line.rstrip()
        if number == 1 and len(header := text.split()) == 2 and all(map(bytes.isdigit, header)):
            announced, p = int(header[0]), int(header[1])
            continue
        p = p or text.count(b" ")
        got = text.count(b" ")
        if got < p or p < 1:
            raise InputError(f"{path}, line {number}: expected a word and {p or 'some'} numbers, "
                             f"got {got} numbers")  # fmt: skip
        word, *values = text.rsplit(b" ", p)
        # GloVe has words that contain spaces (". . ."), but none that end with a number.
        if got > p and _is_number(word.rpartition(b" ")[2]):
            raise InputError(f"{path}, line {number}: expected a word and {p} numbers, got {got}")
        count += 1
        yield number, word, values
    if announced >= 0 and count != announced:
        raise InputError(f"{path}: expected {announced} words, as in line 1, got {count}")
    if not count:
        raise InputError(f"{path}: expected lines 'word v1 v2 ...', got none")


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_numbers(where: str, values: list[bytes]) -> Vector:
    """Return numbers from their text; raise InputError if one is not a finite number."""
    try:
        numbers = np.array(values, dtype=np.bytes_).astype(np.float32)
    except ValueError as error:
        raise InputError(f"{where}: expected numbers: {one_line(error)}") from error
    if not np.isfinite(numbers).all():
        other = numbers[~np.isfinite(numbers)][0]
        raise InputError(f"{where}: expected finite numbers, got {other:g}")
    return numbers
