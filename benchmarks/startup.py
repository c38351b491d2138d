"""How long do help, the version and typing errors take?

CPU time (user and system) of a new process, over that of ``--help`` of a typer app with one empty
command. The calls are made in turn, in one run; medians.

    python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

from output import write
from plotly import graph_objects

GOAL = 3.0
EMPTY = """
import typer

app = typer.Typer()


@app.command()
def main() -> None:
    pass


app()
"""
BASE = "empty typer app --help"
CALLS = {
    "pmvge --help": ["--help"],
    "pmvge fit --help": ["fit", "--help"],
    "pmvge --version": ["--version"],
    "pmvge fti": ["fti"],
    "pmvge fit --outptu x": ["fit", "--outptu", "x"],
}


def cpu_seconds(command: list[str]) -> float:
    """Run a command and return the CPU time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    commands = {BASE: [sys.executable, "-c", EMPTY, "--help"]}
    for name, words in CALLS.items():
        commands[name] = [sys.executable, "-m", "pmvge", *words]
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            times[name].append(cpu_seconds(command))
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    results = [
        {
            "command": name,
            "cpu_ms": 1e3 * seconds,
            "ratio": seconds / medians[BASE],
            "goal": None if name == BASE else GOAL,
        }
        for name, seconds in medians.items()
    ]
    for row in results:
        goal = f"  (goal {row['goal']})" if row["goal"] else ""
        print(f"{row['command']:24} {row['cpu_ms']:8.1f} ms  {row['ratio']:6.2f}{goal}")
    figure = graph_objects.Figure()
    figure.add_bar(
        x=[row["command"] for row in results],
        y=[row["ratio"] for row in results],
    )
    figure.add_hline(y=GOAL, line_dash="dot")
    figure.update_layout(title="CPU time of short commands over that of an empty typer app")
    write("startup", results, figure)


if __name__ == "__main__":
    main()
