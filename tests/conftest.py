"""What all tests share: a busy machine fails none of them."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# The problems are small: one thread is about as fast, and does not wait for a busy core.
torch.set_num_threads(1)
