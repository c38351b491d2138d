"""What all tests share: a busy machine fails none of them, and one in the background neither."""

from __future__ import annotations

import signal

import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# The problems are small: one thread is about as fast, and does not wait for a busy core.
torch.set_num_threads(1)

# A shell starts background jobs with Ctrl-C ignored; tests that press it need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
