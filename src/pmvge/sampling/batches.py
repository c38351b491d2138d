"""Streams of batches with the feature rows of their entities, prefetched where this saves time.

A background thread reads features from a memory map, or copies them to another device, while
training works on an earlier batch. All draws come from one generator in one order: results do not
depend on prefetching.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from pmvge.graph import MultiViewGraph, SparseRows, is_mapped, take

PREFETCH = 2  # batches that a background thread prepares before they are requested
RowTensors = torch.Tensor | SparseRows
T = TypeVar("T")


class BatchWithRows(NamedTuple):
    """A batch, and the rows of each of its ``inputs``."""

    batch: Any
    x: list[RowTensors]


class BatchStream:
    """The batches of a sampler, with the generator state after each of them.

    ``transform`` is applied to every batch. If ``prefetch`` is above 0, a background thread
    prepares that many batches in advance.
    """

    def __init__(
        self,
        sampler: Iterable[Any],
        rng: np.random.Generator,
        transform: Callable[[Any], Any] | None = None,
        *,
        prefetch: int = 0,
    ) -> None:
        self._sampler, self._rng, self._transform = sampler, rng, transform
        self._prefetch = prefetch
        self._state = rng.bit_generator.state

    def __iter__(self) -> Generator[Any, None, None]:
        drawn = self._draw()
        with closing(in_background(drawn, self._prefetch) if self._prefetch else drawn) as items:
            for item, state in items:
                self._state = state
                yield item

    def _draw(self) -> Generator[tuple[Any, Any], None, None]:
        for batch in self._sampler:
            state = self._rng.bit_generator.state
            yield batch if self._transform is None else self._transform(batch), state

    def state(self) -> dict[str, Any]:
        """Return the generator's state after the last batch that was yielded."""
        return dict(self._state)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after the batch that ``state`` belongs to; call this before iterating."""
        self._rng.bit_generator.state = self._state = state


def in_background(items: Iterator[T], ahead: int) -> Generator[T, None, None]:
    """Yield the same items, computed by a thread up to ``ahead`` items in advance.

    Exceptions of the thread are raised here.
    """
    end = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="pmvge-batches")
    try:
        waiting: deque[Future[Any]] = deque(pool.submit(next, items, end) for _ in range(ahead))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)


def row_gatherer(graph: MultiViewGraph, device: torch.device) -> Callable[[Any], BatchWithRows]:
    """Return a function from a batch to the batch with the feature rows of its entities."""

    def gather(batch: Any) -> BatchWithRows:
        rows = [rows_of(graph, view, entities, device) for view, entities in batch.inputs]
        return BatchWithRows(batch, rows)

    return gather


def rows_of(graph: MultiViewGraph, view: str, entities: Any, device: torch.device) -> RowTensors:
    """Return the feature rows of entities; in a featureless view, their positions."""
    X = graph.views[view]
    return torch.from_numpy(entities).to(device) if X is None else take(X, entities, device)


def prefetch_depth(graph: MultiViewGraph, device: torch.device) -> int:
    """Return how many batches to prefetch: 0 if all rows are in the memory of the device."""
    mapped = any(isinstance(X, np.ndarray) and is_mapped(X) for X in graph.views.values())
    return PREFETCH if mapped or device.type != "cpu" else 0
