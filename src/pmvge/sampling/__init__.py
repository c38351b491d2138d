"""Batches of links and node pairs, drawn from a graph."""

from pmvge.sampling.batches import BatchStream, Ready, Rows, gatherer, how_far_ahead
from pmvge.sampling.block import BlockSampler, LinkBatch
from pmvge.sampling.pairs import PairBatch, PairSampler

__all__ = [
    "BatchStream",
    "BlockSampler",
    "LinkBatch",
    "PairBatch",
    "PairSampler",
    "Ready",
    "Rows",
    "gatherer",
    "how_far_ahead",
]
