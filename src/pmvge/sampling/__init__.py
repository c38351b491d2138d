"""Batches of links and entity pairs, drawn from a graph."""

from pmvge.sampling.batches import (
    BatchStream,
    BatchWithRows,
    RowTensors,
    prefetch_depth,
    row_gatherer,
    rows_of,
)
from pmvge.sampling.block import BlockSampler, LinkBatch, Measure, with_measure
from pmvge.sampling.pairs import PairBatch, PairSampler

__all__ = [
    "BatchStream",
    "BatchWithRows",
    "BlockSampler",
    "LinkBatch",
    "Measure",
    "PairBatch",
    "PairSampler",
    "RowTensors",
    "prefetch_depth",
    "row_gatherer",
    "rows_of",
    "with_measure",
]
