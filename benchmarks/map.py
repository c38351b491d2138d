"""Measure maps: the share of nearest points of another view that are top partners, and time.

`python benchmarks/map.py` fits models with the default settings to MovieLens and LastFM (from
PMVGE_DATA), to the practice films and to digits, on seed 0, and makes models
of 10^5 and 10^6 simulated vectors. For each it prints the share for the map, for t-SNE of the
vectors alone, by scikit-learn and with the same optimiser as the map, and for points at random
places. Settings of the map were chosen on seed 100 (map_choices.py). One thread, unless
OMP_NUM_THREADS says otherwise; the time is that of the processor.

    python benchmarks/map.py films digits        # some of them
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import numpy as np
from map_models import GRAPHS, data_set, simulated
from output import RESULTS
from sklearn.manifold import TSNE

from pmvge import PMvGE
from pmvge.model import compute_map
from pmvge.model.mapping.quality import find_top_partners, partner_share

SEED = 0
SIMULATED = {"simulated, 10^5": 10**5, "simulated, 10^6": 10**6}
NAMES = ("films", "digits", "MovieLens", "LastFM", *SIMULATED)
MAX_PLAIN = 20_000  # entities for scikit-learn's t-SNE


def sklearn_share(model: PMvGE) -> float | None:
    """Return the share for scikit-learn's t-SNE of the vectors."""
    vectors = np.concatenate(list(model.embeddings_.values()))
    if len(vectors) > MAX_PLAIN:
        return None
    tsne = TSNE(init="pca", metric="cosine", max_iter=500, random_state=SEED)
    xy = tsne.fit_transform(vectors)
    ends = np.cumsum([len(Y) for Y in model.embeddings_.values()])[:-1]
    places = dict(zip(model.embeddings_, np.split(xy, ends), strict=True))
    return partner_share(places, find_top_partners(model._check_fitted(), SEED))


def measure(name: str) -> dict[str, Any]:
    model = data_set(name, SEED) if name in GRAPHS else simulated(SIMULATED[name], SEED)
    model.progress = False
    began, wall = time.process_time(), time.perf_counter()
    drawn = compute_map(model, seed=SEED, progress=False)
    spent = {"processor_seconds": time.process_time() - began}
    spent["wall_seconds"] = time.perf_counter() - wall
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "entities": sum(map(len, model.ids_.values())),
        "partner_share": drawn.partner_share,
        "sklearn_tsne_share": sklearn_share(model),
        "plain_share": drawn.plain_share,
        "chance_share": drawn.chance_share,
        **spent,
        "peak_memory_gb": memory,
        "method": drawn.method,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=", ".join(NAMES))
    path = RESULTS / "map.json"
    for name in parser.parse_args().names:
        measured = measure(name)
        results = json.loads(path.read_text()) if path.exists() else {}
        results[name] = measured
        print(name, json.dumps(results[name], indent=1), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
