"""CPU seconds to read a table with thousands of columns of 0 and 1, beside pandas.read_csv.

    python benchmarks/wide.py                   # 3,312 papers, 3,703 words, as in Citeseer
    python benchmarks/wide.py --rows 10000

``init`` is ``sketch_project``, which reads the file once to guess; ``read_tables`` reads it into a
graph with a sparse matrix. Both are given as multiples of pandas, in CPU seconds of all threads.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from output import write
from plotly import graph_objects

from pmvge.tables import read_tables, sketch_project

GOAL = 5.0  # times pandas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3312)
    parser.add_argument("--words", type=int, default=3703)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, given.rows, given.words)
        pandas = seconds(lambda: pd.read_csv(folder / "papers.csv"), given.repeats)
        init = seconds(lambda: sketch_project(folder), given.repeats)
        project = sketch_project(folder).project
        read = seconds(lambda: read_tables(project), given.repeats)
    print(f"{given.rows:,} rows, {given.words + 2:,} columns; CPU seconds, best of {given.repeats}")
    print(f"pandas.read_csv  {pandas:6.2f}")
    results = {"rows": given.rows, "columns": given.words + 2, "pandas_seconds": pandas}
    for what, used in (("init", init), ("read_tables", read)):
        print(f"{what:<15}  {used:6.2f}  {used / pandas:4.1f} times pandas")
        results[what] = {"seconds": used, "ratio": used / pandas, "goal": GOAL}
    figure = graph_objects.Figure()
    figure.add_bar(x=["init", "read_tables"], y=[init / pandas, read / pandas])
    figure.add_hline(y=GOAL, line_dash="dot")
    figure.update_layout(title="CPU seconds over those of pandas.read_csv")
    write("wide", results, figure)


def write_tables(folder: Path, rows: int, words: int) -> None:
    """Write papers with words and a class, and citations."""
    rng = np.random.default_rng(0)
    X = (rng.random((rows, words)) < 0.0085).astype(int)
    classes = rng.choice(["AI", "DB", "HCI", "IR", "ML", "Theory"], rows)
    with (folder / "papers.csv").open("w") as stream:
        names = ",".join(f"w{number}" for number in range(words))
        stream.write(f"paper_id,{names},class\n")
        for number, (row, label) in enumerate(zip(X.tolist(), classes, strict=True)):
            stream.write(f"p{number},{','.join(map(str, row))},{label}\n")
    ends = np.sort(rng.integers(rows, size=(4732, 2)))
    links = pd.DataFrame(ends[ends[:, 0] < ends[:, 1]], columns=["cited", "citing"])
    links.map("p{}".format).to_csv(folder / "cites.csv", index=False)


def seconds(job: Callable[[], object], repeats: int) -> float:
    """Return the least CPU time of several runs."""
    used = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        used.append(time.process_time() - start)
    return min(used)


if __name__ == "__main__":
    main()
