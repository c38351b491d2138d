"""Batches with the rows of their nodes, ready when training wants them.

Features in a memory map, and those bound for another device, are fetched by a background thread
while training works on an earlier batch. Draws come from one generator in one order either way, so
that results are the same bits.
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

AHEAD = 2  # batches fetched before they are wanted
Rows = torch.Tensor | SparseRows
T = TypeVar("T")


class Ready(NamedTuple):
    """A batch, and the rows of each of its ``inputs``."""

    batch: Any
    x: list[Rows]


class BatchStream:
    """Batches of a sampler, made ready; it knows where its generator stands after each of them."""

    def __init__(
        self,
        sampler: Iterable[Any],
        rng: np.random.Generator,
        make_ready: Callable[[Any], Any] | None = None,
        *,
        ahead: int = 0,
    ) -> None:
        """``ahead`` batches are made ready by a thread; 0: no thread."""
        self._sampler, self._rng, self._make_ready, self._ahead = sampler, rng, make_ready, ahead
        self._state = rng.bit_generator.state

    def __iter__(self) -> Generator[Any, None, None]:
        drawn = self._draw()
        with closing(in_background(drawn, self._ahead) if self._ahead else drawn) as items:
            for item, state in items:
                self._state = state
                yield item

    def _draw(self) -> Generator[tuple[Any, Any], None, None]:
        for batch in self._sampler:
            state = self._rng.bit_generator.state
            yield batch if self._make_ready is None else self._make_ready(batch), state

    def state(self) -> dict[str, Any]:
        """The generator's state after the batch that came last."""
        return dict(self._state)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on after that batch; before any is asked for."""
        self._rng.bit_generator.state = self._state = state


def in_background(items: Iterator[T], ahead: int) -> Generator[T, None, None]:
    """The same items, taken by a thread before they are wanted; its errors come out here."""
    end = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="pmvge-batches")
    try:
        waiting: deque[Future[Any]] = deque(pool.submit(next, items, end) for _ in range(ahead))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)


def gatherer(graph: MultiViewGraph, device: torch.device) -> Callable[[Any], Ready]:
    """What puts the rows of its nodes beside a batch."""

    def gather(batch: Any) -> Ready:
        return Ready(batch, [rows_of(graph, view, nodes, device) for view, nodes in batch.inputs])

    return gather


def rows_of(graph: MultiViewGraph, view: str, nodes: Any, device: torch.device) -> Rows:
    """Rows of some nodes; of a featureless view, their positions."""
    X = graph.views[view]
    return torch.from_numpy(nodes).to(device) if X is None else take(X, nodes, device)


def how_far_ahead(graph: MultiViewGraph, device: torch.device) -> int:
    """How many batches a thread should fetch: none where rows are in memory already."""
    far = any(isinstance(X, np.ndarray) and is_mapped(X) for X in graph.views.values())
    return AHEAD if far or device.type != "cpu" else 0
