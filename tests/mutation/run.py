"""Mutation testing: make small changes to the core and check that a test fails for each.

``make mutants`` runs mutmut on the modules that pyproject.toml lists under ``[tool.mutmut]``, and
compares the surviving mutants with ``survivors.toml``, which gives a reason for each. A survivor
that is not listed there is an error: a test is missing. Mutants that no test runs, and mutants
whose tests time out, count as survivors.
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


def mutmut(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a mutmut command in the root folder."""
    # Workers are forked, and thread pools do not survive a fork.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, check=True, **options)


def results() -> dict[str, str]:
    """Return the status of each mutant, by its name in mutmut."""
    lines = mutmut("results", "--all", "true", stdout=subprocess.PIPE).stdout.splitlines()
    return dict(line.strip().split(": ", 1) for line in lines if ": " in line)


def described(name: str) -> str:
    """Return module, function and change, such as ``graph.links.degrees: a + b => a - b``.

    mutmut names mutants ``pmvge.module.x_function__mutmut_1`` or
    ``pmvge.module.xǁClassǁmethod__mutmut_1``.
    """
    module, function = re.fullmatch(r"pmvge\.([\w.]+)\.(x[_ǁ].+)__mutmut_\d+", name).groups()
    function = function.replace("ǁ", ".")[2:]
    lines = mutmut("show", name, stdout=subprocess.PIPE).stdout.splitlines()
    sides = {
        sign: " ".join(x[1:].strip() for x in lines if x[:1] == sign and x[:3] != sign * 3)
        for sign in "-+"
    }
    return f"{module}.{function}: {sides['-']} => {sides['+']}"


def explained() -> list[str]:
    """Return the mutants listed in ``survivors.toml``."""
    reasons = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["reason"]
    return [mutant for reason in reasons for mutant in reason["mutants"]]


def main() -> int:
    """Run mutmut; return 0 if exactly the listed mutants survive."""
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    mutmut("run")
    statuses = results()
    survivors = [described(name) for name, status in statuses.items() if status != "killed"]
    known = Counter(explained())
    new = Counter(survivors) - known
    print(f"\n{len(statuses)} mutants: {dict(Counter(statuses.values()))}")
    print(f"{len(survivors)} survived; {new.total()} of them without a reason in {EXPLAINED.name}")
    for mutant in sorted(new.elements()):
        print(f"  {mutant}")
    stale = known - Counter(survivors)
    for mutant in sorted(stale.elements()):
        print(f"listed there, but killed now: {mutant}")
    return 0 if statuses and not new and not stale else 1


if __name__ == "__main__":
    raise SystemExit(main())
