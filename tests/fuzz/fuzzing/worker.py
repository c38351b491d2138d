"""A child process that reads damaged inputs, with a memory limit. A crash ends only the child.

The child reads lines ``{"target": ..., "seed": ...}`` and answers with outcomes.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzzing.outcome import Outcome, run_case
from fuzzing.target import Case
from fuzzing.targets import TARGETS

TIMEOUT = 120  # seconds to wait for an answer: longer means that the process hangs
ADDRESS_SPACE = 4 << 30  # bytes beyond the address space of the libraries
START_TIMEOUT = 120  # seconds until the libraries are imported
FOLDER = Path(__file__).resolve().parents[1]
# One thread per library; no allocators that reserve gigabytes of address space.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "PYTHONHASHSEED": "0",
}


class Worker:
    """Run inputs in a child process, which is started on demand and restarted after a crash."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)

    def run(self, target: str, seed: int | None) -> Outcome:
        """Return the outcome of one input; without a seed, of the valid input."""
        process = self._started()
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the child has died: there is no answer
            process.stdin.write(json.dumps({"target": target, "seed": seed}).encode() + b"\n")
            process.stdin.flush()
        answer = self._answer(process, TIMEOUT)
        if answer is None:
            code = self.end()
            reason = "it hangs" if code == -9 else f"the process ended with code {code}"
            return Outcome("failed", f"{reason}\n{self._stderr()}", float(TIMEOUT))
        return Outcome(**answer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.errors.truncate(0)
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "fuzzing.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                cwd=FOLDER,
                env={**os.environ, **ENVIRONMENT},
            )
            if self._answer(self.process, START_TIMEOUT) is None:
                self.end()
                raise RuntimeError(f"the process did not start\n{self._stderr()}")
        return self.process

    @staticmethod
    def _answer(process: subprocess.Popen[bytes], seconds: float) -> Any:
        """Return the next answer; None if there is none in time."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else b""
        return json.loads(line) if line else None

    def _stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-4000:]

    def close(self) -> None:
        """End the process and close the file of its error output."""
        self.end()
        self.errors.close()

    def end(self) -> int | None:
        """End the process; return its exit code, -9 if it had to be killed."""
        process, self.process = self.process, None
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()
            process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        process.stdout.close()
        return process.returncode


def limit_memory() -> None:
    """Limit the address space to ADDRESS_SPACE bytes more than is used now."""
    status = Path("/proc/self/statm")
    if not status.exists():  # not Linux: only the peak memory is checked
        return
    used = int(status.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, used + ADDRESS_SPACE))


def serve() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with answers
    import torch

    torch.set_num_threads(1)
    limit_memory()
    answers.write("{}\n")
    for line in sys.stdin:
        request = json.loads(line)
        target, seed = TARGETS[request["target"]], request["seed"]
        outcome = run_case(
            Case(target, 0, dict(target.valid)) if seed is None else Case.of(target, seed)
        )
        answers.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    serve()
