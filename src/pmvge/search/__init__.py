"""Vectors with their ids, written in batches; exact and approximate top-k search."""

from pmvge.search.embeddings import Embeddings
from pmvge.search.exact import top_k
from pmvge.search.hnsw import HnswIndex
from pmvge.search.vector_index import ExactIndex, VectorIndex
from pmvge.search.writing import embed_in_batches, save_atomically, save_tables

__all__ = [
    "Embeddings",
    "ExactIndex",
    "HnswIndex",
    "VectorIndex",
    "embed_in_batches",
    "save_atomically",
    "save_tables",
    "top_k",
]
