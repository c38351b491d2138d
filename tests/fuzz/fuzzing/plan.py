"""Choose which inputs are run: every target gets its share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzzing.targets import TARGETS


def inputs(names: Sequence[str], first: int) -> Iterator[tuple[str, int]]:
    """Yield target names and seeds without end, next the target furthest behind its share."""
    done = dict.fromkeys(names, 0)
    while True:
        name = min(done, key=lambda target: (done[target] + 1) / TARGETS[target].share)
        yield name, first + done[name]
        done[name] += 1
