"""Vectors with their ids, written in batches, and exact top-k search."""

from pmvge.search.embeddings import Embeddings
from pmvge.search.exact import top_k
from pmvge.search.writing import embed_in_batches, save_atomically

__all__ = ["Embeddings", "embed_in_batches", "save_atomically", "top_k"]
