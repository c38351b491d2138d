"""Processes agree on a fresh prefix after each restart, whatever keys are left in the store."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch import distributed

from pmvge.distributed.rendezvous import agree_on_prefix

pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this torch has no torch.distributed"
)


def join_after(store, rank, size, delay=0.0, timeout=30.0):
    time.sleep(delay)
    return agree_on_prefix(store, rank, size, timeout=timeout)


def prefixes(store, delays, timeout=30.0):
    """Return the prefix, or the exception, of each process.

    Processes join after ``delays`` seconds; None: the process never joins.
    """
    size = len(delays)
    with ThreadPoolExecutor(size) as pool:
        futures = [
            pool.submit(join_after, store, rank, size, delay, timeout)
            for rank, delay in enumerate(delays)
            if delay is not None
        ]
    return [future.exception() or future.result() for future in futures]


@pytest.mark.parametrize("delays", [[0.0], [0, 0, 0], [0.3, 0, 0.1], [0, 0.3, 0.1]])
def test_processes_agree_and_every_restart_has_another_prefix(delays):
    store = distributed.HashStore()
    starts = [prefixes(store, delays) for _ in range(3)]
    assert [len(set(found)) for found in starts] == [1, 1, 1]
    assert len({found[0] for found in starts}) == 3


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_processes_agree_after_incomplete_starts(missing):
    store = distributed.HashStore()
    incomplete = [None if rank == missing else 0.0 for rank in range(3)]
    for _ in range(2):
        errors = prefixes(store, incomplete, timeout=0.5)
        assert all(isinstance(error, TimeoutError) for error in errors)
        assert "of 3 waited 0.5 s for the others" in str(errors[0])
    assert len(set(prefixes(store, [0.3, 0, 0]))) == 1


def test_a_restart_may_have_another_number_of_processes():
    store = distributed.HashStore()
    starts = [prefixes(store, [0.1] + [0.0] * others) for others in (3, 1, 4)]
    assert [len(set(found)) for found in starts] == [1, 1, 1]
