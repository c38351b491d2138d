"""Run all tests and report which lines and branches of src/pmvge they run (make test-all).

The quick tests run on all cores, then the slow ones; processes that tests start are counted, too.
Coverage below the bounds is an error. ``--quick`` measures the quick tests alone.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LINES, BRANCHES = 95.0, 90.0  # per cent
QUICK = ("-m", "not slow", "--numprocesses", "auto", "--maxprocesses", "8", "--dist", "loadfile")


def coverage(*arguments: str) -> int:
    """Run a command of coverage in the project's root and return its exit code."""
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode


def main(*, quick: bool) -> int:
    """Run pytest under coverage, print the totals, and return an exit code."""
    coverage("erase")
    failed = coverage("run", "-m", "pytest", *QUICK)
    if not quick:
        failed = coverage("run", "-m", "pytest", "-m", "slow") or failed
    coverage("combine", "--quiet")
    coverage("report")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        coverage("json", "--quiet", "-o", str(path))
        totals = json.loads(path.read_text())["totals"]
    lines = 100 * totals["covered_lines"] / totals["num_statements"]
    branches = 100 * totals["covered_branches"] / totals["num_branches"]
    print(f"{lines:.1f} % of {totals['num_statements']} lines (at least {LINES:g})")
    print(f"{branches:.1f} % of {totals['num_branches']} branches (at least {BRANCHES:g})")
    return failed or int(lines < LINES or branches < BRANCHES)


if __name__ == "__main__":
    raise SystemExit(main(quick="--quick" in sys.argv[1:]))
