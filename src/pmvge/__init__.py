"""Probabilistic Multi-view Graph Embedding: one space for things of different kinds."""

from pmvge.embeddings import Embeddings
from pmvge.encoders import EncoderSpec
from pmvge.errors import PmvgeError
from pmvge.graph import MultiViewGraph
from pmvge.model import PMvGE
from pmvge.version import __version__

__all__ = ["Embeddings", "EncoderSpec", "MultiViewGraph", "PMvGE", "PmvgeError", "__version__"]
