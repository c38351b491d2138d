"""Settings of all tests."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

# No deadlines: on a busy machine an example may take any time. Continuous integration draws the
# same examples in every run, so that a failure is one of the change; other runs draw new ones.
settings.register_profile(
    "no-deadline",
    deadline=None,
    derandomize=os.environ.get("PMVGE_SAME_EXAMPLES") == "1",
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("no-deadline")

# The problems are small: one thread is about as fast, and does not wait for a busy core.
torch.set_num_threads(1)

# A shell starts background jobs with SIGINT ignored; tests that send it need the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a real browser, controlled by ``tools/chromium.py``."""
    path = Path(__file__).parents[1] / "tools" / "chromium.py"
    spec = importlib.util.spec_from_file_location("chromium", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = module.find_chromium()
    if program is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    chromium = module.Chromium(program, tmp_path_factory.mktemp("browser"))
    yield chromium
    chromium.close()
