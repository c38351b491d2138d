"""Fit small graphs of every kind, and compare the results with earlier ones.

``python tests/model/reference_fits.py bits.json`` writes a hash of everything that each fit learned
to a new file, or compares with the file if it exists: a refactoring must change no bit on one
machine. ``--values`` rewrites ``reference_fits.json``, the numbers that ``test_reference_fits.py``
compares within rounding on any machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from pmvge import EncoderSpec, MultiViewGraph, PMvGE

VALUES = Path(__file__).with_suffix(".json")
SETTINGS: dict[str, Any] = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "dropout": 0.3,
    "effects": "none",
    "schedule": "constant",
    "weight_decay": 0.0,
    "batch_size": 16,
    "max_steps": 12,
    "patience": 2,
    "learning_rate": 1e-2,
    "random_state": 5,
    "progress": False,
}


def graphs() -> dict[str, MultiViewGraph]:
    """Return dense, sparse, featureless, large and mixed graphs."""
    rng = np.random.default_rng(3)

    def links(n: int, m: int, size: int) -> tuple[Any, Any, Any]:
        return (
            rng.integers(n, size=size),
            rng.integers(m, size=size),
            1.0 + rng.integers(3, size=size),
        )

    def halves(n: int, size: int) -> tuple[Any, Any, Any]:  # within a view: left half to right half
        return (
            rng.integers(n // 2, size=size),
            n // 2 + rng.integers(n // 2, size=size),
            np.ones(size),
        )

    X, T = rng.normal(size=(30, 5)), rng.normal(size=(24, 3))
    S = sparse.random_array((28, 40), density=0.15, format="csr", rng=3)
    return {
        "dense": MultiViewGraph({"a": X, "b": T}, {("a", "b"): links(30, 24, 90)}),
        "sparse": MultiViewGraph({"s": S}, {("s", "s"): halves(28, 60)}),
        "featureless": MultiViewGraph({"u": 40, "v": 35}, {("u", "v"): links(40, 35, 120)}),
        # Large enough for lazy updates of rows.
        "large": MultiViewGraph({"u": 3000, "v": 2500}, {("u", "v"): links(3000, 2500, 4000)}),
        "mixed": MultiViewGraph(
            {"a": X, "s": S, "u": 9},
            {
                ("a", "s"): links(30, 28, 80),
                ("a", "u"): links(30, 9, 50),
                ("a", "a"): halves(30, 40),
            },
        ),
    }


def fits() -> Iterator[tuple[str, PMvGE]]:
    """Fit every graph with both schemes and both similarities."""
    for (name, graph), scheme, similarity in product(
        graphs().items(), ("block", "paper"), ("inner", "cosine")
    ):
        # The dropout of sparse columns in 0.1.
        encoder = {"s": EncoderSpec(input_dropout=0.5)} if "s" in graph.views else "mlp"
        settings = {"scheme": scheme, "similarity": similarity, "encoder": encoder, **SETTINGS}
        model = PMvGE(**settings).fit(graph)
        yield f"{name} {scheme} {similarity}", model


def bits(model: PMvGE) -> str:
    """Return a hash of everything that was learned."""
    digest = hashlib.sha256()
    for view in sorted(model.embeddings_):
        digest.update(model.embeddings_[view].tobytes())
    digest.update(model.alpha_.tobytes())
    for name, tensor in sorted(model._fitted.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    history = [(r.step, r.epoch, r.loss, r.validation, r.learning_rate) for r in model.history_]
    digest.update(repr(history).encode())
    return digest.hexdigest()


def values(model: PMvGE) -> dict[str, Any]:
    """Return a few numbers that summarise a fit."""
    return {
        "norms": {view: float(np.linalg.norm(Y)) for view, Y in sorted(model.embeddings_.items())},
        "log_alpha": {",".join(pair): value for pair, value in sorted(model.log_alpha_.items())},
        "loss": [record.loss for record in model.history_],
        "validation": [record.validation for record in model.history_],
    }


def main() -> None:
    """Write or compare hashes; write values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bits", type=Path, nargs="?", help="file of hashes to write or compare")
    parser.add_argument("--values", action="store_true", help=f"rewrite {VALUES.name}")
    given = parser.parse_args()
    models = dict(fits())
    if given.values:
        content = {name: values(model) for name, model in models.items()}
        VALUES.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if given.bits is None:
        return
    found = {name: bits(model) for name, model in models.items()}
    if not given.bits.exists():
        given.bits.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{len(found)} fits written to {given.bits}")
        return
    expected = json.loads(given.bits.read_text(encoding="utf-8"))
    different = [name for name in expected if found.get(name) != expected[name]]
    print(f"{len(expected) - len(different)} of {len(expected)} fits have the same bits")
    if different:
        raise SystemExit(f"different: {', '.join(different)}")


if __name__ == "__main__":
    main()
