"""A fuzzing target: a small valid input, how it is damaged, and the function that reads it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzzing.mutation import mutate, mutate_json

Files = dict[str, bytes]  # of a folder, by their paths in it


@dataclass(frozen=True, eq=False)
class Target:
    """``make`` writes a valid input to a folder; ``read`` reads it and checks the result.

    ``read`` gets the input folder and a folder that it may write to. It returns if the input was
    accepted and raises PmvgeError if it was refused. Any other exception is a failure, including
    AssertionError for a wrong result.
    """

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path, Path], object]
    damaged: tuple[str, ...] = ("*",)  # patterns of the files that are damaged
    as_json: tuple[str, ...] = ()  # patterns of files in which JSON values, not bytes, change
    repair: Callable[[Files], None] | None = None  # recomputes checksums
    share: float = 1.0  # of all inputs

    @cached_property
    def valid(self) -> Mapping[str, bytes]:
        """Return the files of the valid input."""
        with TemporaryDirectory(prefix="fuzz-") as folder:
            self.make(Path(folder))
            return read_folder(Path(folder))


@dataclass
class Case:
    """One damaged input, and the changes that were made to the valid one."""

    target: Target
    seed: int
    files: Files = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, target: Target, seed: int) -> Case:
        """Return the damaged input of a seed. It is the same in every process."""
        rng = random.Random(f"{target.name} {seed}")
        case = cls(target, seed, dict(target.valid))
        names = [name for name in sorted(case.files) if _matches(name, target.damaged)]
        for name in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
            data = case.files[name]
            if _matches(name, target.as_json) and rng.random() < 0.8:
                damaged, changes = mutate_json(rng, data)
            else:
                damaged, changes = mutate(rng, data, case.files[rng.choice(names)])
            case.files[name] = damaged
            case.changes.append(f"{name}: {', '.join(changes)}")
        if target.repair is not None and rng.random() < 0.9:
            target.repair(case.files)
            case.changes.append("checksums repaired")
        return case

    def write(self, folder: Path) -> None:
        """Write the files to a folder."""
        write_folder(folder, self.files)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def read_folder(folder: Path) -> Files:
    """Return all files of a folder and its subfolders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a folder, with their subfolders."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def check_finite(value: Any) -> None:
    """Assert that an array, or a number, is finite."""
    import numpy as np

    array = np.asarray(value)
    assert array.dtype.kind in "fiub", f"expected numbers, got {array.dtype}"
    assert np.isfinite(array).all(), "expected finite numbers"
