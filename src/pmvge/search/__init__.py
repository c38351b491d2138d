"""Vectors with their ids, and exact top-k search."""

from pmvge.search.embeddings import Embeddings
from pmvge.search.exact import top_k
from pmvge.search.writing import save_whole, stream

__all__ = ["Embeddings", "save_whole", "stream", "top_k"]
