"""A reader under test: a small valid input, how it is damaged, and the door it is read by."""

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
    """``make`` writes a valid input into a folder; ``read`` reads it and checks what it got.

    ``read`` gets the folder of the input and one that it may write to. It returns when the input
    was accepted, raises PmvgeError when it was refused, and anything else is a failure: so is an
    AssertionError, by which it says that what it got makes no sense.
    """

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path, Path], object]
    damaged: tuple[str, ...] = ("*",)  # patterns of the files that are changed
    as_json: tuple[str, ...] = ()  # those of which values are changed, rather than bytes
    repair: Callable[[Files], None] | None = None  # makes checksums right again
    share: float = 1.0  # of all inputs

    @cached_property
    def valid(self) -> Mapping[str, bytes]:
        """The files of the valid input."""
        with TemporaryDirectory(prefix="fuzz-") as folder:
            self.make(Path(folder))
            return read_folder(Path(folder))


@dataclass
class Case:
    """One damaged input, and how it came to be."""

    target: Target
    seed: int
    files: Files = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, target: Target, seed: int) -> Case:
        """The input of a seed: always the same."""
        rng = random.Random(f"{target.name} {seed}")
        case = cls(target, seed, dict(target.valid))
        able = [name for name in sorted(case.files) if _any(name, target.damaged)]
        for name in rng.sample(able, min(len(able), rng.choice((1, 1, 1, 2)))):
            data = case.files[name]
            if _any(name, target.as_json) and rng.random() < 0.8:
                changed, told = mutate_json(rng, data)
            else:
                changed, told = mutate(rng, data, case.files[rng.choice(able)])
            case.files[name] = changed
            case.told.append(f"{name}: {', '.join(told)}")
        if target.repair is not None and rng.random() < 0.9:
            target.repair(case.files)
            case.told.append("checksums repaired")
        return case

    def write(self, folder: Path) -> None:
        """Put the files into a folder."""
        write_folder(folder, self.files)


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def read_folder(folder: Path) -> Files:
    """The files of a folder and of those inside."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their paths."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def whole(value: Any) -> None:
    """Say that an array, or a number, is finite."""
    import numpy as np

    array = np.asarray(value)
    assert array.dtype.kind in "fiub", f"expected numbers, got {array.dtype}"
    assert np.isfinite(array).all(), "expected finite numbers"
