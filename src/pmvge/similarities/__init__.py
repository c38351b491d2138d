"""Similarities of two vectors, one file each."""

from pmvge.similarities.cosine import Cosine
from pmvge.similarities.inner import Inner
from pmvge.similarities.registry import SIMILARITIES, build_similarity

__all__ = ["SIMILARITIES", "Cosine", "Inner", "build_similarity"]
