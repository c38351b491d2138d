"""A process that reads damaged inputs, with a limit on its memory; it may crash, we do not.

The process gets lines ``{"target": ..., "seed": ...}`` and answers with outcomes.
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

from fuzzing.judge import SECONDS, Outcome, judge
from fuzzing.target import Case
from fuzzing.targets import TARGETS

GRACE = 10  # seconds, for code that does not hear the alarm, and for a busy machine
SPACE = 4 << 30  # bytes of addresses beyond those of the libraries
START = 120  # seconds in which the libraries are there
HERE = Path(__file__).resolve().parents[1]
# One thread each; and no allocator that takes addresses by the gigabyte.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "PYTHONHASHSEED": "0",
}


class Worker:
    """Starts a process when there is something to do, and another one when it has died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  (until the worker is closed)

    def run(self, target: str, seed: int | None) -> Outcome:
        """The outcome of one input; without a seed, of the valid one."""
        process = self._started()
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has died meanwhile: then there is no answer
            process.stdin.write(json.dumps({"target": target, "seed": seed}).encode() + b"\n")
            process.stdin.flush()
        answer = self._answer(process, SECONDS + GRACE)
        if answer is None:
            code = self.end()
            why = "it hangs" if code == -9 else f"the process ended with code {code}"
            return Outcome("failed", f"{why}\n{self._said()}", float(SECONDS))
        return Outcome(**answer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.errors.truncate(0)
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "fuzzing.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                cwd=HERE,
                env={**os.environ, **ENVIRONMENT},
            )
            if self._answer(self.process, START) is None:
                self.end()
                raise RuntimeError(f"the process did not start\n{self._said()}")
        return self.process

    @staticmethod
    def _answer(process: subprocess.Popen[bytes], seconds: float) -> Any:
        """The next line; None if there is none in time."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else b""
        return json.loads(line) if line else None

    def _said(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-4000:]

    def close(self) -> None:
        """End the process, and forget what it said."""
        self.end()
        self.errors.close()

    def end(self) -> int | None:
        """End the process; say with which code it ended, -9 if it had to be told."""
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
    """Allow so many bytes of addresses beyond those that are used now."""
    status = Path("/proc/self/statm")
    if not status.exists():  # not Linux: the largest amount of memory is looked at all the same
        return
    used = int(status.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPACE, used + SPACE))


def serve() -> None:
    """Answer until there are no more lines."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    import torch

    torch.set_num_threads(1)
    limit_memory()
    answers.write("{}\n")
    for line in sys.stdin:
        asked = json.loads(line)
        target, seed = TARGETS[asked["target"]], asked["seed"]
        outcome = judge(
            Case(target, 0, dict(target.valid)) if seed is None else Case.of(target, seed)
        )
        answers.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    serve()
