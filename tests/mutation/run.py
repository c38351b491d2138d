"""Break the core on purpose, one small change at a time, and see whether a test notices.

``make mutants`` runs mutmut on the modules that pyproject.toml names under ``[tool.mutmut]``, and
holds what survives against ``survivors.toml``, which says of each why no test can, or need, tell it
from the original. A survivor that is not listed there is a gap in the tests, and an error. Mutants
that no test runs, or whose tests do not come to an end, count as survivors.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPLAINED = Path(__file__).with_name("survivors.toml")


def mutmut(*words: str, **how: object) -> subprocess.CompletedProcess[str]:
    # Workers are forked, and a pool of threads does not survive that.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mutmut", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, check=True, **how)


def found() -> dict[str, str]:
    """What became of each mutant, by mutmut's name for it."""
    lines = mutmut("results", "--all", "true", stdout=subprocess.PIPE).stdout.splitlines()
    return dict(line.strip().split(": ", 1) for line in lines if ": " in line)


def described(name: str) -> str:
    """The module, the function and the change, such as ``links.degrees: a + b => a - b``."""
    module, function = re.fullmatch(r"pmvge\.(\w+)\.(.+)__mutmut_\d+", name).groups()
    function = function.replace("ǁ", ".")[2:]  # from x_function or xǁClassǁmethod
    lines = mutmut("show", name, stdout=subprocess.PIPE).stdout.splitlines()
    sides = {
        sign: " ".join(x[1:].strip() for x in lines if x[:1] == sign and x[:3] != sign * 3)
        for sign in "-+"
    }
    return f"{module}.{function}: {sides['-']} => {sides['+']}"


def explained() -> list[str]:
    reasons = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["reason"]
    return [mutant for reason in reasons for mutant in reason["mutants"]]


def main() -> int:
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    mutmut("run")
    fates = found()
    survivors = [described(name) for name, fate in fates.items() if fate != "killed"]
    known = Counter(explained())
    new = Counter(survivors) - known
    print(f"\n{len(fates)} mutants: {dict(Counter(fates.values()))}")
    print(f"{len(survivors)} survived; {new.total()} of them without a reason in {EXPLAINED.name}")
    for mutant in sorted(new.elements()):
        print(f"  {mutant}")
    stale = known - Counter(survivors)
    for mutant in sorted(stale.elements()):
        print(f"listed there, but noticed now: {mutant}")
    return 0 if fates and not new and not stale else 1


if __name__ == "__main__":
    raise SystemExit(main())
