"""Microbes and metabolites of cystic fibrosis samples, as long tables of percentages."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pmvge.datasets import load_microbes
from pmvge.examples.csv_files import write_csv

MIN_SAMPLES = 10  # microbes and metabolites in fewer samples are left out


def write_microbes(folder: Path) -> None:
    """Write microbes, metabolites, and how much of each a sample has, in percent of its total."""
    graph = load_microbes(min_samples=MIN_SAMPLES)
    samples, sequences = graph.ids["sample"].tolist(), graph.ids["microbe"].tolist()
    microbes = [f"microbe-{number:03d}" for number in range(len(sequences))]
    write_csv(
        folder / "microbes.csv",
        ("microbe_id", "sequence"),
        zip(microbes, sequences, strict=True),
    )
    masses = [name.lstrip("X").split("mz") for name in graph.ids["metabolite"].tolist()]
    metabolites = [f"metabolite-{number:03d}" for number in range(len(masses))]
    write_csv(
        folder / "metabolites.csv",
        ("metabolite_id", "mass", "seconds"),
        ((name, *pair) for name, pair in zip(metabolites, masses, strict=True)),
    )
    for view, names in (("microbe", microbes), ("metabolite", metabolites)):
        amounts = graph.links["sample", view].matrix().toarray()
        percent = (100 * amounts) / amounts.sum(axis=1, keepdims=True)
        rows = (
            (samples[i], names[j], f"{percent[i, j]:.6g}")
            for i, j in zip(*np.nonzero(percent), strict=True)
        )
        write_csv(folder / f"sample_{view}s.csv", ("sample_id", f"{view}_id", "percent"), rows)
