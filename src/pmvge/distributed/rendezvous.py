"""A rendezvous that works after ``torchrun`` has restarted the processes of a run.

``torchrun`` restarts the processes after one of them fails, with the same key-value store as
before. The store keeps entries of the terminated processes, such as addresses that no longer
answer. So the restarted processes first agree on a fresh prefix, and write all other keys under it.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

TIMEOUT = 600.0  # seconds until all processes must have joined
POLL_INTERVAL = 0.05  # seconds between two reads of the store


def restart_safe_store() -> tuple[Store, int, int]:
    """Return a store under a fresh prefix, the rank of this process and the number of processes."""
    from torch.distributed.distributed_c10d import PrefixStore  # not in every build of torch
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://"))
    prefix = agree_on_prefix(PrefixStore("pmvge", store), rank, size)
    return PrefixStore(prefix, store), rank, size


def agree_on_prefix(store: Store, rank: int, size: int, *, timeout: float = TIMEOUT) -> str:
    """Return a prefix that all ``size`` processes agree on, and that was not used before.

    The first process writes a new prefix. The other processes write their own random ids under
    it. When all ids are there, the first process writes the list of them. A process accepts a
    prefix if its own id is in the list: the list under an older prefix has the ids of earlier
    processes, or does not exist. Raise TimeoutError after ``timeout`` seconds.
    """
    own, end = uuid.uuid4().hex, time.monotonic() + timeout
    if rank == 0:
        store.set("prefix", own)
    while time.monotonic() < end:
        prefix = own if rank == 0 else _read(store, "prefix")
        if prefix is not None:
            store.set(f"{prefix}/{rank}", own)
            if rank == 0:
                present = [_read(store, f"{own}/{other}") for other in range(size)]
                if None not in present:
                    store.set(f"{own}/all", json.dumps(present))
                    return own
            elif own in (_read(store, f"{prefix}/all") or ""):
                return prefix
        time.sleep(POLL_INTERVAL)
    raise TimeoutError(
        f"process {rank} of {size} waited {timeout:g} s for the others; check that torchrun "
        "started all of them and that they can reach each other"
    )


def _read(store: Store, key: str) -> str | None:
    """Return the value of a key without waiting for it; None if it is not set."""
    return store.get(key).decode() if store.check([key]) else None
