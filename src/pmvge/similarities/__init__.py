"""Similarities of two vectors, one file each."""

from pmvge.similarities.base import Similarity
from pmvge.similarities.biased import Biased, WithBiases
from pmvge.similarities.cosine import Cosine
from pmvge.similarities.inner import INNER, Inner
from pmvge.similarities.registry import (
    SIMILARITIES,
    build_similarity,
    check_similarity,
    register_similarity,
    similarity_name,
)

__all__ = [
    "INNER",
    "SIMILARITIES",
    "Biased",
    "Cosine",
    "Inner",
    "Similarity",
    "WithBiases",
    "build_similarity",
    "check_similarity",
    "register_similarity",
    "similarity_name",
]
