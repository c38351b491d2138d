"""Which inputs are tried: every reader gets its share, whenever one stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzzing.targets import TARGETS


def inputs(names: Sequence[str], first: int) -> Iterator[tuple[str, int]]:
    """Readers and seeds without an end; always the one that is furthest behind its share."""
    done = dict.fromkeys(names, 0)
    while True:
        name = min(done, key=lambda one: (done[one] + 1) / TARGETS[one].share)
        yield name, first + done[name]
        done[name] += 1
