"""Compare settings and libraries for the map, on seed 100, which is not reported.

`python benchmarks/map_choices.py` prints, for each data set, the share of an entity's nearest
points of another view that are top partners, the share of its 10 nearest points of its own view
that are among its 10 most similar ones, and processor time. All layouts are of the same graph:

- ours, with several shares of affinity for partners;
- scikit-learn's Barnes-Hut t-SNE, by private functions, and openTSNE and umap-learn, which are left
  out if they are not installed; these have the default share.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from map_models import data_set
from output import RESULTS
from scipy import sparse
from scipy.spatial import cKDTree

from pmvge import PMvGE
from pmvge.maps.affinities import PARTNER_SHARE, affinities
from pmvge.maps.tsne import spectral_start, tsne
from pmvge.model.mapping.neighbours import Neighbours
from pmvge.model.mapping.quality import find_top_partners, partner_share

SEED, K = 100, 10
SHARES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.9)
Layout = Callable[[sparse.csr_array], np.ndarray]


def barnes_hut(P: sparse.csr_array) -> np.ndarray:
    from sklearn.manifold import _t_sne

    Y = spectral_start(P, 0).ravel()
    options = {"objective": _t_sne._kl_divergence_bh, "learning_rate": max(P.shape[0] / 48, 50),
               "kwargs": {"skip_num_points": 0, "num_threads": 1, "compute_error": False},
               "args": [None, 1, P.shape[0], 2], "n_iter_check": 50}  # fmt: skip
    for scale, momentum, first, last in ((12, 0.5, 0, 200), (1, 0.8, 200, 500)):
        options["args"][0] = sparse.csr_matrix(P * scale).astype(np.float32)
        Y = _t_sne._gradient_descent(p0=Y, it=first, max_iter=last, momentum=momentum,
                                     **options)[0]  # fmt: skip
    return Y.reshape(-1, 2)


def open_tsne(P: sparse.csr_array) -> np.ndarray:
    from openTSNE import TSNEEmbedding
    from openTSNE.affinity import PrecomputedAffinities

    given = PrecomputedAffinities(sparse.csr_matrix(P), normalize=True)
    start = spectral_start(P, 0).astype(np.float64)
    Y = TSNEEmbedding(start, given, negative_gradient_method="fft", n_jobs=1, random_state=0)
    Y = Y.optimize(200, exaggeration=12, momentum=0.5)
    return np.asarray(Y.optimize(300, momentum=0.8))


def umap(P: sparse.csr_array) -> np.ndarray:
    from umap.umap_ import find_ab_params, simplicial_set_embedding

    graph = sparse.coo_matrix(P / P.max())
    a, b = find_ab_params(1.0, 0.1)
    Y, _ = simplicial_set_embedding(
        None, graph, 2, 1.0, a, b, 1.0, 5, 500 if P.shape[0] < 10_000 else 200,
        10 * spectral_start(P, 0) / 1e-2, np.random.RandomState(0), "euclidean", {}, False, {},
        False)  # fmt: skip
    return Y


OTHERS: dict[str, Layout] = {
    "scikit-learn (private)": barnes_hut, "openTSNE": open_tsne, "umap-learn": umap,
}  # fmt: skip


def own_share(xy: dict[str, np.ndarray], model: PMvGE) -> float:
    """Return the share of the nearest points of the own view that are most similar."""
    fitted = model._check_fitted()
    every = {view: np.arange(len(rows)) for view, rows in xy.items()}
    neighbours, shares = Neighbours(fitted, every), []
    for view, rows in every.items():
        if len(rows) <= K:
            continue
        asked = np.random.default_rng(0).permutation(len(rows))[:1000]
        similar = neighbours.nearest(view, asked, view, K + 1, partners=False)
        near = cKDTree(xy[view]).query(xy[view][asked], k=K + 1)[1]
        hits = (near[:, :, None] == similar[:, None, :]).any(2) & (near != asked[:, None])
        shares.append(hits.sum() / (K * len(asked)))
    return float(np.mean(shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=["MovieLens", "films"])
    results = {}
    for name in parser.parse_args().data:
        model = data_set(name, SEED)
        fitted = model._check_fitted()
        every = {view: np.arange(len(ids)) for view, ids in fitted.ids.items()}
        relations = Neighbours(fitted, every).of_sample()
        top = find_top_partners(fitted, 0)
        sizes = {view: len(rows) for view, rows in every.items()}
        ends = np.cumsum(list(sizes.values()))[:-1]
        runs: dict[str, tuple[float, Layout]] = {f"ours, {s}": (s, tsne) for s in SHARES}
        runs |= {label: (PARTNER_SHARE, call) for label, call in OTHERS.items()}
        for label, (share, call) in runs.items():
            P = affinities(sizes, relations, share)
            began = time.process_time()
            try:
                Y = call(P)
            except ImportError:
                print(f"{name:10} {label:24} not installed")
                continue
            spent = time.process_time() - began
            xy = dict(zip(sizes, np.split(np.asarray(Y, np.float32), ends), strict=True))
            scores = {"partners": partner_share(xy, top), "own view": own_share(xy, model)}
            results[f"{name}: {label}"] = {**scores, "seconds": spent}
            print(f"{name:10} {label:24} partners {scores['partners']:.3f}  own view "
                  f"{scores['own view']:.3f}  {spent:6.1f} s", flush=True)  # fmt: skip
    (RESULTS / "map_choices.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
