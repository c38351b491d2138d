"""Measure the time from tables to a report: three situations, 100,000 links, default settings.

- films: users, films and genres as CSV files with text ids and text columns;
- papers: a citation graph in Cora's own format, converted to two CSV files;
- frames: pandas tables and a scipy matrix, from Python.

Each runs init (or builds a graph), fit, evaluate, search and report, and prints their seconds.

    python benchmarks/journey.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

ROOT = Path(__file__).resolve().parents[1]
GOAL = 30  # seconds
LINKS = 100_000


class Watch:
    """A stopwatch that records the seconds of each step by its name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        self.seconds[name] = time.perf_counter() - started
        return result


def pmvge(folder: Path, *words: str) -> str:
    """Return what a command prints; raise RuntimeError if it fails."""
    command = [sys.executable, "-m", "pmvge", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def commands(
    folder: Path, pair: str, query: tuple[str, str, str], max_steps: int | None = None
) -> dict[str, Any]:
    """Run init, fit, evaluate, search and report on the tables in a folder."""
    watch = Watch()
    view, entity, among = query
    watch("init", lambda: pmvge(folder, "init"))
    watch("fit", lambda: pmvge(folder, "fit", "--set", f"max_steps={max_steps or 'none'}"))
    held = ["--links", "later/held_out.csv", "--pair", pair]
    scores = watch("evaluate", lambda: pmvge(folder, "evaluate", "model", *held, "--json"))
    asked = ["--view", view, "--id", entity, "--among", among, "--json"]
    found = watch("search", lambda: pmvge(folder, "search", "model", *asked))
    watch("report", lambda: pmvge(folder, "report", "model"))
    auc = json.loads(scores)["pairs"][pair]["roc_auc"]
    partners = json.loads(found)["results"][0]["partners"]
    return {"seconds": watch.seconds, "roc_auc": auc, "partners": len(partners)}


def films(folder: Path, links: int = LINKS, max_steps: int | None = None) -> dict[str, Any]:
    """Run the commands on the practice tables."""
    # A tenth of the ratings is held out, and a few have the same pair.
    from pmvge.examples import write_films

    write_films(folder, ratings=round(links * 1.12))
    return commands(folder, "users,films", ("users", "u00042", "films"), max_steps)


def papers(folder: Path, links: int = LINKS, max_steps: int | None = None) -> dict[str, Any]:
    """Run the commands on a simulated citation graph, converted to CSV as in the quickstart."""
    make_cora(folder / "cora", links)
    turn_into_tables(folder / "cora", folder / "tables")
    query = ("papers", "1007", "papers")
    return commands(folder / "tables", "papers,papers", query, max_steps)


def make_cora(folder: Path, links: int, seed: int = 0) -> None:
    """Write cora.content (id, 0/1 words, class) and cora.cites (cited, citing)."""
    rng = np.random.default_rng(seed)
    n, p, fields = max(200, links // 20), 400, 8
    field = rng.integers(fields, size=n)
    chance = np.where(np.arange(p) % fields == field[:, None], 0.12, 0.02)
    words = (rng.random((n, p)) < chance).astype(int)
    near = rng.random(links) < 0.9  # citations within a field, and across
    order = np.argsort(field, kind="stable")
    first = np.searchsorted(field[order], np.arange(fields + 1))
    i = rng.integers(n, size=links)
    inside = first[field[i]] + (rng.random(links) * np.diff(first)[field[i]]).astype(int)
    j = np.where(near, order[inside], rng.integers(n, size=links))
    folder.mkdir(parents=True)
    content = np.column_stack([1000 + np.arange(n), words, field])
    np.savetxt(folder / "cora.content", content, fmt="%d", delimiter="\t")
    cites = 1000 + np.column_stack([i, j])[i != j]
    np.savetxt(folder / "cora.cites", cites, fmt="%d", delimiter="\t")


def turn_into_tables(cora: Path, folder: Path) -> None:
    """Write two CSV files with headers, and a tenth of the citations as held-out links."""
    (folder / "later").mkdir(parents=True)
    content = pd.read_csv(cora / "cora.content", sep="\t", header=None)
    names = ["paper_id", *(f"w{n}" for n in range(content.shape[1] - 2)), "label"]
    content.set_axis(names, axis=1).to_csv(folder / "papers.csv", index=False)
    cites = pd.read_csv(cora / "cora.cites", sep="\t", names=["cited", "citing"])
    held_out = cites.sample(frac=0.1, random_state=0)
    held_out.to_csv(folder / "later" / "held_out.csv", index=False)
    cites.drop(held_out.index).to_csv(folder / "cites.csv", index=False)


def frames(folder: Path, links: int = LINKS, max_steps: int | None = None) -> dict[str, Any]:
    """Fit pandas tables of people and things, and purchases as a scipy matrix."""
    from pmvge import MultiViewGraph, PMvGE
    from pmvge.report import write_report
    from pmvge.tables import graph_from_frames, rows_of

    rng, watch = np.random.default_rng(0), Watch()
    n, m = max(100, links // 20), max(50, links // 40)
    taste, kind = rng.normal(size=(n, 6)), rng.normal(size=(m, 6))
    people = pd.DataFrame(taste + 0.5 * rng.normal(size=taste.shape)).add_prefix("x")
    people.insert(0, "person", np.arange(n))
    things = pd.DataFrame(kind + 0.5 * rng.normal(size=kind.shape)).add_prefix("y")
    things.insert(0, "thing", [f"thing {number}" for number in range(m)])
    things["colour"] = np.array(["red", "blue", "green"])[np.digitize(kind[:, 0], [-0.5, 0.5])]
    chance = np.exp(0.5 * taste @ kind.T).ravel()
    drawn = rng.choice(chance.size, size=links, p=chance / chance.sum())
    bought = pd.DataFrame({"person": drawn // m, "thing": things["thing"].to_numpy()[drawn % m]})
    alike = sparse.coo_array(sparse.random_array((m, m), density=20 / m, rng=rng))

    def read() -> MultiViewGraph:
        views = {"person": people, "thing": things}
        graph = graph_from_frames(views, {("person", "thing"): bought})
        apart = alike.row < alike.col
        pairs = (alike.row[apart], alike.col[apart], alike.data[apart])
        links = {("person", "thing"): graph.links["person", "thing"].matrix()}
        matrices = MultiViewGraph(
            dict(graph.views), {**links, ("thing", "thing"): pairs}, dict(graph.ids)
        )
        return matrices.with_tables(graph.tables or {})

    graph = watch("graph", read)
    estimator = PMvGE(max_steps=max_steps, random_state=0, progress=False)
    model = watch("fit", lambda: estimator.fit(graph, hold_out=0.1))
    results = watch("evaluate", model.evaluate)
    _, rows = rows_of(model.tables_, "person", people.head(3))
    ids, _ = watch("search", lambda: model.search("person", rows, among="thing", k=10))
    folder.mkdir(parents=True, exist_ok=True)
    watch("report", lambda: write_report(folder / "report.html", model))
    auc = results["pairs"]["person,thing"]["roc_auc"]
    return {"seconds": watch.seconds, "roc_auc": auc, "partners": ids.shape[1]}


SITUATIONS = {"films": films, "papers": papers, "frames": frames}


def main() -> None:
    from output import write
    from plotly import graph_objects

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=LINKS)
    links = parser.parse_args().links
    results = {}
    figure = graph_objects.Figure()
    for name, run in SITUATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = run(Path(folder) / name, links)
        seconds = results[name]["seconds"]
        steps = ", ".join(f"{step} {taken:.0f}" for step, taken in seconds.items())
        auc = results[name]["roc_auc"]
        print(f"{name}: {sum(seconds.values()):.0f} s (goal {GOAL}): {steps}; AUC {auc:.3f}")
        figure.add_bar(x=list(seconds), y=list(seconds.values()), name=name)
    figure.update_layout(yaxis_title="seconds", barmode="group")
    write("journey", results, figure)


if __name__ == "__main__":
    main()
