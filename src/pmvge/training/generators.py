"""The torch generators that dropout draws from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def dropout_generator(device: torch.device) -> torch.Generator:
    """Return the generator that dropout on a device draws from."""
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "cuda":
        torch.cuda.init()
        return torch.cuda.default_generators[device.index or 0]
    return torch.mps._get_default_mps_generator()


@contextmanager
def private_rng(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's generators inside the context, and restore their states afterwards.

    Dropout draws from these generators; it takes no generator argument.
    """
    cpu = device.type == "cpu"
    with torch.random.fork_rng([] if cpu else [device], device_type="cuda" if cpu else device.type):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach all devices
        if not cpu:
            torch.get_device_module(device).manual_seed(seed)
        yield
