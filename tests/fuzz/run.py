"""Read thousands of damaged inputs, and say what came of them.

All readers:      python tests/fuzz/run.py
One input again:  python tests/fuzz/run.py --target csv --seed 123
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

from fuzzing.judge import Outcome, judge
from fuzzing.plan import inputs
from fuzzing.target import Case, write_folder
from fuzzing.targets import TARGETS
from fuzzing.worker import Worker

Row = tuple[str, int, Outcome]


def main() -> int:
    """0 if nothing failed."""
    options = _options()
    if options.seed is not None:
        return _again(options.target, options.seed, options.keep)
    names = [options.target] if options.target else [*TARGETS]
    started = time.perf_counter()
    found = list(
        _outcomes(names, options.inputs, options.first, options.processes, options.minutes)
    )
    _table(found, time.perf_counter() - started)
    failures = [row for row in found if row[2].kind == "failed"]
    if len(found) < options.inputs:
        print(f"time is up: {len(found):,} of {options.inputs:,} inputs were tried")
    if failures:
        _report(failures)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=[*TARGETS], help="one reader; all by default")
    parser.add_argument("--seed", type=int, help="one input, read in this process")
    parser.add_argument("--keep", type=Path, help="with --seed: a folder to put that input into")
    parser.add_argument("--inputs", type=int, default=10_000, help="how many in all")
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    parser.add_argument("--minutes", type=float, default=9.5, help="when to stop at the latest")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.seed is not None and options.target is None:
        parser.error("--seed needs --target")
    return options


def _again(name: str, seed: int, keep: Path | None) -> int:
    case = Case.of(TARGETS[name], seed)
    if keep is not None:
        write_folder(keep, case.files)
    outcome = judge(case)
    print(*case.told, sep="\n")
    print(f"{outcome.kind} after {outcome.seconds:.2f} s {outcome.message}")
    return outcome.kind == "failed"


def _outcomes(
    names: list[str], count: int, first: int, processes: int, minutes: float
) -> Iterator[Row]:
    """Inputs go to the processes one by one, until there are no more, or no more time."""
    end = time.monotonic() + 60 * minutes
    asked = islice(inputs(names, first), count)
    done: SimpleQueue[Row | None] = SimpleQueue()

    def work() -> None:
        try:
            with closing(Worker()) as worker:
                while time.monotonic() < end and (one := next(asked, None)) is not None:
                    done.put((*one, worker.run(*one)))
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


def _table(found: list[Row], seconds: float) -> None:
    counts = Counter((name, outcome.kind) for name, _, outcome in found)
    spent: Counter[str] = Counter()
    for name, _, outcome in found:
        spent[name] += outcome.seconds  # type: ignore[assignment]
    print(f"{'target':<20}{'inputs':>8}{'accepted':>10}{'refused':>9}{'failed':>8}{'seconds':>9}")
    for name in dict.fromkeys(row[0] for row in sorted(found, key=lambda row: row[0])):
        kinds = [counts[name, kind] for kind in ("accepted", "refused", "failed")]
        told = f"{sum(kinds):>8,}{kinds[0]:>10,}{kinds[1]:>9,}{kinds[2]:>8,}"
        print(f"{name:<20}{told}{spent[name]:>9.1f}")
    totals = [sum(n for (_, kind), n in counts.items() if kind == k) for k in _KINDS]
    told = f"{len(found):>8,}{totals[0]:>10,}{totals[1]:>9,}{totals[2]:>8,}"
    print(f"{'all':<20}{told}{seconds:>9.1f}")


_KINDS = ("accepted", "refused", "failed")


def _command(row: Row) -> str:
    return f"python tests/fuzz/run.py --target {row[0]!r} --seed {row[1]}"


def _report(failures: list[Row]) -> None:
    """What failed and how to see it again, in a folder that stays."""
    folder = Path(tempfile.mkdtemp(prefix="pmvge-fuzz-"))
    with (folder / "failures.txt").open("w", encoding="utf-8", errors="replace") as stream:
        for row in failures:
            told = Case.of(TARGETS[row[0]], row[1]).told
            stream.write("\n".join([_command(row), *told, row[2].message, "", ""]))
    print(f"{len(failures):,} inputs failed: {folder / 'failures.txt'}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
