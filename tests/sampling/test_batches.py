"""Streams of batches: prefetching, generator states, rows."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE
from pmvge.sampling import BatchStream, BlockSampler, prefetch_depth, row_gatherer
from pmvge.sampling.batches import PREFETCH, in_background

CPU = torch.device("cpu")


BEFORE: list[threading.Thread] = []  # threads of other tests, such as those of a server


@pytest.fixture(autouse=True)
def threads_before() -> None:
    BEFORE[:] = threading.enumerate()


def threads() -> list[str]:
    now = [thread for thread in threading.enumerate() if thread not in BEFORE]
    return [thread.name for thread in now if "pmvge" in thread.name]


def numbers(rng):
    while True:
        yield int(rng.integers(1000))


@pytest.fixture
def graph(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(400, 5)).astype(np.float16))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    links = (rng.integers(400, size=900), rng.integers(80, size=900))
    return MultiViewGraph({"a": X, "b": 80}, {("a", "b"): links})


def in_memory(graph: MultiViewGraph) -> MultiViewGraph:
    links = {p: (t.rows, t.cols, t.weights) for p, t in graph.links.items()}
    return MultiViewGraph({"a": np.array(graph.views["a"]), "b": 80}, links)


@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_prefetching_does_not_change_the_batches(prefetch):
    rng = np.random.default_rng(0)
    stream = iter(BatchStream(numbers(rng), rng, prefetch=prefetch))
    again = numbers(np.random.default_rng(0))
    assert [next(stream) for _ in range(50)] == [next(again) for _ in range(50)]


@pytest.mark.parametrize("prefetch", [0, 3])
def test_the_state_is_that_after_the_last_batch_yielded(prefetch):
    rng = np.random.default_rng(0)
    stream = BatchStream(numbers(rng), rng, prefetch=prefetch)
    batches = iter(stream)
    for _ in range(7):
        next(batches)
    state, expected = stream.state(), [next(batches) for _ in range(5)]
    later = np.random.default_rng(99)
    resumed = BatchStream(numbers(later), later, prefetch=prefetch)
    resumed.restore(state)
    batches = iter(resumed)
    assert [next(batches) for _ in range(5)] == expected


def test_a_thread_prefetches_and_ends_with_its_stream():
    made = []

    def slow():
        for k in range(100):
            made.append(k)
            yield k

    items = in_background(slow(), 3)
    assert next(items) == 0
    deadline = time.monotonic() + 300  # only if it hangs
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert made == [0, 1, 2, 3]  # three more than were requested
    assert threads()
    items.close()
    assert not threads()


def test_the_end_and_errors_of_the_thread_are_passed_on():
    assert list(in_background(iter([1, 2]), 4)) == [1, 2]

    def failing():
        yield 1
        raise ValueError("no more")

    items = in_background(failing(), 2)
    assert next(items) == 1
    with pytest.raises(ValueError, match="no more"):
        next(items)
    assert not threads()


def test_row_gatherer_adds_the_rows_of_the_batch(graph):
    sampler = BlockSampler(graph, n_links=20, n_uniform=10, rng=np.random.default_rng(0))
    batch, x = row_gatherer(graph, CPU)(next(iter(sampler)))
    (a, entities), (b, others) = batch.inputs
    assert (a, b) == ("a", "b")
    np.testing.assert_array_equal(x[0].numpy(), np.asarray(graph.views["a"])[entities])
    np.testing.assert_array_equal(x[1].numpy(), others)


def test_only_memory_maps_and_other_devices_are_prefetched(graph):
    assert prefetch_depth(graph, CPU) == PREFETCH
    assert prefetch_depth(in_memory(graph), CPU) == 0
    assert prefetch_depth(in_memory(graph), torch.device("cuda")) == PREFETCH


def test_a_fit_on_a_memory_map_equals_a_fit_in_memory(graph, tmp_path):
    settings = {"max_steps": 60, "random_state": 0, "progress": False}
    mapped = PMvGE(4, **settings).fit(graph)
    plain = PMvGE(4, **settings).fit(in_memory(graph))
    for view, Y in mapped.embeddings_.items():
        np.testing.assert_array_equal(Y, plain.embeddings_[view])
    assert not threads()


def test_a_resumed_fit_on_a_memory_map_is_bitwise_equal(graph, tmp_path):
    settings = {"random_state": 0, "progress": False, "patience": None, "schedule": "constant"}
    folder = tmp_path / "checkpoint"
    PMvGE(4, max_steps=30, checkpoint_dir=folder, **settings).fit(graph)
    resumed = PMvGE(4, max_steps=60, checkpoint_dir=folder, **settings).fit(graph, resume=True)
    expected = PMvGE(4, max_steps=60, **settings).fit(graph)
    for view, Y in expected.embeddings_.items():
        np.testing.assert_array_equal(Y, resumed.embeddings_[view])
