"""Similarities of two vectors, one file each."""

from pmvge.similarities.base import Similarity
from pmvge.similarities.biased import Biased, WithBiases
from pmvge.similarities.by_vectors import ByVectors
from pmvge.similarities.cosine import Cosine
from pmvge.similarities.difference import Difference
from pmvge.similarities.euclidean import Euclidean
from pmvge.similarities.hyperbolic import Hyperbolic
from pmvge.similarities.inner import INNER, Inner
from pmvge.similarities.registry import (
    SIMILARITIES,
    build_similarity,
    check_similarity,
    register_similarity,
    similarity_name,
)
from pmvge.similarities.shifted import Shifted
from pmvge.similarities.weighted import Weighted

__all__ = [
    "INNER",
    "SIMILARITIES",
    "Biased",
    "ByVectors",
    "Cosine",
    "Difference",
    "Euclidean",
    "Hyperbolic",
    "Inner",
    "Shifted",
    "Similarity",
    "Weighted",
    "WithBiases",
    "build_similarity",
    "check_similarity",
    "register_similarity",
    "similarity_name",
]
