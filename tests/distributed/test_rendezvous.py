"""Processes agree on a name in each life of a run, whatever an earlier one has left behind."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch import distributed

from pmvge.distributed.rendezvous import meet

pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this build of torch knows no processes"
)


def come(store, rank, size, after=0.0, wait=30.0):
    time.sleep(after)
    return meet(store, rank, size, wait=wait)


def life(store, delays, wait=30.0):
    """What the processes call their life; they come after so many seconds, or not at all (None)."""
    size = len(delays)
    with ThreadPoolExecutor(size) as pool:
        names = [
            pool.submit(come, store, rank, size, after, wait)
            for rank, after in enumerate(delays)
            if after is not None
        ]
    return [name.exception() or name.result() for name in names]


@pytest.mark.parametrize("delays", [[0.0], [0, 0, 0], [0.3, 0, 0.1], [0, 0.3, 0.1]])
def test_all_agree_and_no_life_is_like_another(delays):
    store = distributed.HashStore()
    lives = [life(store, delays) for _ in range(3)]
    assert [len(set(names)) for names in lives] == [1, 1, 1]
    assert len({names[0] for names in lives}) == 3


@pytest.mark.parametrize("dead", [0, 1, 2])
def test_a_life_that_not_all_have_seen_leads_nobody_astray(dead):
    store = distributed.HashStore()
    half = [None if rank == dead else 0.0 for rank in range(3)]
    for names in (life(store, half, wait=0.5), life(store, half, wait=0.5)):
        assert all(isinstance(name, TimeoutError) for name in names)
        assert "of 3 waited 0.5 s for the others" in str(names[0])
    assert len(set(life(store, [0.3, 0, 0]))) == 1


def test_another_number_of_processes_may_come_to_the_next_life():
    store = distributed.HashStore()
    names = [life(store, [0.1] + [0.0] * others) for others in (3, 1, 4)]
    assert [len(set(found)) for found in names] == [1, 1, 1]
