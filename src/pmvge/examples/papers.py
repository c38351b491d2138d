"""Cora as tables: papers with their words, and citations; new papers apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from pmvge.datasets import load_cora
from pmvge.examples.csv_files import write_csv


def write_papers(folder: Path) -> None:
    """Write papers and citations; a fifth of the papers, with their citations, go to ``later``."""
    cora = load_cora()
    words, ids = sparse.csr_array(cora.graph.views["paper"]), cora.graph.ids["paper"]
    new = np.random.default_rng(0).random(len(ids)) < 0.2
    columns = ("paper_id", "words", "label")
    for path, rows in (("papers.csv", ~new), ("later/new_papers.csv", new)):
        lines = (
            (ids[row], " ".join(f"w{word}" for word in words[[row]].indices),
             cora.classes[cora.labels[row]])
            for row in np.flatnonzero(rows)
        )  # fmt: skip
        write_csv(folder / path, columns, lines)
    links = cora.graph.links["paper", "paper"]
    later = new[links.rows] | new[links.cols]
    for path, kept in (("citations.csv", ~later), ("later/new_citations.csv", later)):
        pairs = zip(ids[links.rows[kept]], ids[links.cols[kept]], strict=True)
        write_csv(folder / path, ("paper", "cited_paper"), pairs)
