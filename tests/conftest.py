"""Settings of all tests."""

from __future__ import annotations

import signal

import torch
from hypothesis import HealthCheck, settings

# No deadlines: on a busy machine an example may take any time.
settings.register_profile(
    "no-deadline", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no-deadline")

# The problems are small: one thread is about as fast, and does not wait for a busy core.
torch.set_num_threads(1)

# A shell starts background jobs with SIGINT ignored; tests that send it need the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
