"""Read thousands of damaged inputs and report the outcomes.

All targets:       python tests/fuzz/run.py
Repeat one input:  python tests/fuzz/run.py --target csv --seed 123
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from fuzzing.outcome import Outcome, run_case
from fuzzing.plan import inputs
from fuzzing.target import Case, write_folder
from fuzzing.targets import TARGETS
from fuzzing.worker import Worker

Row = tuple[str, int, Outcome]  # target, seed, outcome
KINDS = ("accepted", "refused", "failed")


def main() -> int:
    """Return the exit code: 1 if an input failed, else 0."""
    options = _options()
    if options.seed is not None:
        return _repeat(options.target, options.seed, options.keep)
    names = [options.target] if options.target else [*TARGETS]
    started = time.perf_counter()
    rows = list(_outcomes(names, options.inputs, options.first, options.processes, options.minutes))
    _print_counts(rows, time.perf_counter() - started)
    failures = [row for row in rows if row[2].kind == "failed"]
    if len(rows) < options.inputs:
        print(f"time limit reached: {len(rows):,} of {options.inputs:,} inputs were read")
    if failures:
        _write_failures(failures)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=[*TARGETS], help="one target; default: all")
    parser.add_argument("--seed", type=int, help="read one input, in this process")
    parser.add_argument("--keep", type=Path, help="with --seed: a folder to write that input to")
    parser.add_argument("--inputs", type=int, default=10_000, help="total number of inputs")
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    parser.add_argument("--minutes", type=float, default=9.5, help="time limit")
    parser.add_argument("--processes", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    if options.seed is not None and options.target is None:
        parser.error("--seed needs --target")
    return options


def _repeat(name: str, seed: int, keep: Path | None) -> int:
    case = Case.of(TARGETS[name], seed)
    if keep is not None:
        write_folder(keep, case.files)
    outcome = run_case(case)
    print(*case.changes, sep="\n")
    print(f"{outcome.kind} after {outcome.seconds:.2f} s {outcome.message}")
    return outcome.kind == "failed"


def _outcomes(
    names: list[str], count: int, first: int, processes: int, minutes: float
) -> Iterator[Row]:
    """Yield outcomes as processes finish inputs, up to ``count`` inputs or ``minutes``."""
    end = time.monotonic() + 60 * minutes
    queue = islice(inputs(names, first), count)
    done: SimpleQueue[Row | None] = SimpleQueue()

    def work() -> None:
        try:
            with closing(Worker()) as worker:
                while time.monotonic() < end and (item := next(queue, None)) is not None:
                    done.put((*item, worker.run(*item)))
        finally:
            done.put(None)

    with ThreadPoolExecutor(processes) as pool:
        futures = [pool.submit(work) for _ in range(processes)]
        for _ in futures:
            while (row := done.get()) is not None:
                if row[2].kind == "failed":
                    print(f"FAILED {_command(row)}", file=sys.stderr, flush=True)
                yield row
        for future in futures:
            future.result()


def _print_counts(rows: list[Row], seconds: float) -> None:
    counts = Counter((name, outcome.kind) for name, _, outcome in rows)
    spent: Counter[str] = Counter()
    for name, _, outcome in rows:
        spent[name] += outcome.seconds  # type: ignore[assignment]
    print(f"{'target':<20}{'inputs':>8}{'accepted':>10}{'refused':>9}{'failed':>8}{'seconds':>9}")
    for name in dict.fromkeys(row[0] for row in sorted(rows, key=lambda row: row[0])):
        print(_line(name, [counts[name, kind] for kind in KINDS], spent[name]))
    totals = [sum(n for (_, kind), n in counts.items() if kind == k) for k in KINDS]
    print(_line("all", totals, seconds))


def _line(name: str, counts: list[int], seconds: float) -> str:
    accepted, refused, failed = counts
    return f"{name:<20}{sum(counts):>8,}{accepted:>10,}{refused:>9,}{failed:>8,}{seconds:>9.1f}"


def _command(row: Row) -> str:
    return f"python tests/fuzz/run.py --target {row[0]!r} --seed {row[1]}"


def _write_failures(failures: list[Row]) -> None:
    """Write the failures, and the commands that repeat them, to a new temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="pmvge-fuzz-"))
    with (folder / "failures.txt").open("w", encoding="utf-8", errors="replace") as stream:
        for row in failures:
            changes = Case.of(TARGETS[row[0]], row[1]).changes
            stream.write("\n".join([_command(row), *changes, row[2].message, "", ""]))
    print(f"{len(failures):,} inputs failed: {folder / 'failures.txt'}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
