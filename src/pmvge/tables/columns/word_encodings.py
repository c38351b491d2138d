"""Encodings of columns of texts: bags of words, or of sequences of characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import pyarrow
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer

from pmvge.tables.columns.encoded import Matrix, Notes


@dataclass(frozen=True)
class Words:
    """Encoding of a text column as a bag of words, weighted by TF-IDF; rows have norm 1.

    With ``ngrams`` words are sequences of characters, of these lengths.
    """

    kinds: ClassVar = ("text",)
    columns: tuple[str, ...]
    words: tuple[str, ...]
    idf: tuple[float, ...]
    ngrams: tuple[int, int] | None = None
    sparse: ClassVar = True

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.words)

    @cached_property
    def _vectorizer(self) -> TfidfVectorizer:
        vectorizer = TfidfVectorizer(
            vocabulary=self.words, dtype=np.float32, analyzer=analyzer(self.ngrams)
        )
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, words)."""
        return sparse.csr_array(self._vectorizer.transform(_texts(self.columns[0], batch, notes)))


@dataclass(frozen=True)
class HashedWords:
    """Encoding of a text column as a bag of hashed words, or ``ngrams``; rows have norm 1."""

    kinds: ClassVar = ("text",)
    columns: tuple[str, ...]
    width: int
    ngrams: tuple[int, int] | None = None
    sparse: ClassVar = True

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width)."""
        hasher = HashingVectorizer(
            n_features=self.width,
            alternate_sign=False,
            dtype=np.float32,
            analyzer=analyzer(self.ngrams),
        )
        return sparse.csr_array(hasher.transform(_texts(self.columns[0], batch, notes)))


def character_ngrams(ngrams: tuple[int, int], text: str) -> list[str]:
    """Return all sequences of ngrams[0] to ngrams[1] characters of the words of a text.

    The text is in lower case, with full-width and half-width forms of a character made equal.
    """
    words = unicodedata.normalize("NFKC", text).lower().split()
    return [
        word[start : start + n]
        for word in words
        for n in range(ngrams[0], ngrams[1] + 1)
        for start in range(len(word) - n + 1)
    ]


def analyzer(ngrams: tuple[int, int] | None) -> str | Callable[[str], list[str]]:
    """Return scikit-learn's ``analyzer`` for words (None) or sequences of characters."""
    return "word" if ngrams is None else partial(character_ngrams, ngrams)


def _texts(column: str, batch: Mapping[str, pyarrow.Array], notes: Notes) -> list[str]:
    notes[column, "missing"] += batch[column].null_count
    return [text or "" for text in batch[column].to_pylist()]
