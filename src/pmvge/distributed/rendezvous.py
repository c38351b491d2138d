"""How the processes of a run find each other, in each of its lives.

``torchrun`` starts processes again after one has died, with the same key-value store as before:
what the dead wrote is still to be read there, such as addresses where nobody answers. So the living
first agree on a name that was never used, and write everything else under it.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

WAIT = 600.0  # seconds for all others to come
LOOK = 0.05  # seconds between looks


def store_of_this_life() -> tuple[Store, int, int]:
    """Where the processes of this life write, the rank of this one, and how many there are."""
    from torch.distributed.distributed_c10d import PrefixStore  # not in every build of torch
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://"))
    return PrefixStore(meet(PrefixStore("pmvge", store), rank, size), store), rank, size


def meet(store: Store, rank: int, size: int, *, wait: float = WAIT) -> str:
    """A name that all of ``size`` processes have, and that none had in an earlier life.

    The first process calls out a new name. The others write under it who they are, and when all
    have, the first answers with the list. A name is right if its answer has oneself in it: the
    answer to a name of an earlier life has other processes in it, or was never given.
    """
    own, end = uuid.uuid4().hex, time.monotonic() + wait
    if rank == 0:
        store.set("name", own)
    while time.monotonic() < end:
        name = own if rank == 0 else _read(store, "name")
        if name is not None:
            store.set(f"{name}/{rank}", own)
            if rank == 0:
                present = [_read(store, f"{own}/{other}") for other in range(size)]
                if None not in present:
                    store.set(f"{own}/all", json.dumps(present))
                    return own
            elif own in (_read(store, f"{name}/all") or ""):
                return name
        time.sleep(LOOK)
    raise TimeoutError(
        f"process {rank} of {size} waited {wait:g} s for the others: were all of them started?"
    )


def _read(store: Store, key: str) -> str | None:
    """What is written there, without waiting for it."""
    return store.get(key).decode() if store.check([key]) else None
