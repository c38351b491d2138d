r"""How much of a view's similarities its features explain, and how much its effects.

For an entity i of view d and a partner j, :math:`h_{ij} = g_{ij} - \operatorname{mean}_i g_{ij}` is
what distinguishes i from other entities of its view. With :math:`h^f` from features alone, without
the effects of view d,

.. math:: \text{share of features} = 1 - \frac{\sum (h_{ij} - h^f_{ij})^2}{\sum h_{ij}^2}

over a sample of entities and partners, at least 0; effects have the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.encoders import MultiViewEncoder
from pmvge.graph import MultiViewGraph
from pmvge.sampling import rows_of

SAMPLE = 1000  # entities of the view, and partners

Shares = dict[str, dict[str, float]]  # {view: {partners' view: share of features}}


def feature_shares(
    network: MultiViewEncoder,
    graph: MultiViewGraph,
    outputs: Mapping[str, NDArray[np.float32]],
    rng: np.random.Generator,
) -> Shares:
    """Return the share of features for each view with effects, and each view of its partners.

    View pairs in which all entities of the view have the same similarities have no share.
    """
    device = network.device
    network.eval()
    shares: Shares = {}
    for view, pairs in network.bias_pairs.items():
        if network.effects_of(view) is None:
            continue
        entities = _sample(graph.sizes[view], rng)
        rows = rows_of(graph, view, entities, device)
        with torch.no_grad():
            index = torch.from_numpy(entities).to(device)
            plain = network(view, rows, index, effects=False).cpu().numpy()
        for pair in pairs:
            other = pair[1] if pair[0] == view else pair[0]
            partners = outputs[other][_sample(graph.sizes[other], rng)]
            full, features = (
                _distinguishing(network, view, other, Y, partners)
                for Y in (outputs[view][entities], plain)
            )
            total = float(np.square(full).sum())
            rest = float(np.square(full - features).sum())
            if total > 0:
                shares.setdefault(view, {})[other] = max(0.0, 1 - rest / total)
    return shares


def _sample(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.permutation(n)[:SAMPLE])


def _distinguishing(
    network: MultiViewEncoder, view: str, other: str, Y: NDArray[Any], partners: NDArray[Any]
) -> NDArray[np.float64]:
    """Return similarities (n, m) minus their means over the entities of the view."""
    similarity = network.pair_similarity.for_pair(view, other)
    query = similarity.query_array(Y).astype(np.float64)
    candidate = similarity.candidate_array(partners).astype(np.float64)
    g: NDArray[np.float64] = similarity.outer_array(query @ candidate.T)
    centred: NDArray[np.float64] = g - g.mean(0)
    return centred
