r"""Calibration: factors of the expected weights of new entities.

Alpha is fitted to entities in training, whose vectors were fitted to the same links. Vectors of new
entities come from features, so that the sum of their :math:`\exp g` differs. For each view pair,
and for entity pairs of which one side or both are new, the factor is

.. math:: c = \hat\alpha_{\text{new}} / (s \alpha), \qquad
          \hat\alpha_{\text{new}} = \arg\max_\alpha \ell(\alpha)
          \text{ over these entity pairs},

with the exposure s. For Poisson weights it is the observed over the expected total weight,
:math:`\sum w_{ij} / (s \sum \mu_{ij})`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import InputError, ParameterError, short
from pmvge.evaluation import reliability_bins
from pmvge.graph import MultiViewGraph, Pair, merge_links
from pmvge.likelihoods import KINDS, Family, KindBlock, TrainedGraph, kind_blocks
from pmvge.model.embedding import Entities, embed_graph, find_entities
from pmvge.model.fitted import Factor, Factors, Fitted
from pmvge.model.fitting.fit import fit
from pmvge.model.fitting.fit_inputs import check_graphs
from pmvge.model.fold_in.first_links import check_exposure
from pmvge.progress import progress_bar


def calibrate(
    fitted: Fitted, graph: MultiViewGraph, *, exposure: Any, show_progress: bool = False
) -> Fitted:
    """Return the model with factors for the kinds of entity pairs that have links in a graph.

    See :meth:`PMvGE.calibrate <pmvge.PMvGE.calibrate>`. Raise InputError if the graph is not valid,
    has links between two training entities, or has no links of new entities.
    """
    if not isinstance(graph, MultiViewGraph):
        raise InputError(f"calibrate: expected a MultiViewGraph, got {type(graph).__name__}")
    for pair in graph.links:
        fitted.alpha_of(*pair)
    scale = check_exposure(exposure)
    if scale is None:
        raise InputError("calibrate: exposure: expected a positive number, got None")
    entities = embed_graph(fitted, graph, show_progress=show_progress)
    for (a, b), links in graph.links.items():
        known = ~entities[a].new[links.rows] & ~entities[b].new[links.cols]
        if known.any():
            at = np.flatnonzero(known)[0]
            ends = (graph.ids[a][links.rows[at]].item(), graph.ids[b][links.cols[at]].item())
            raise InputError(
                f"calibrate: links {a},{b}: expected links of entities that were not in training, "
                f"but {int(known.sum()):,} of {len(links):,} links have both ends in training, "
                f"such as {short(ends[0])} - {short(ends[1])}; leave these links out"
            )
    return _with_factors(fitted, graph, entities, scale, show_progress)


def held_out_factors(
    settings: dict[str, Any],
    graph: MultiViewGraph,
    validation: MultiViewGraph | None,
    share: Any,
    hold_out: float | None,
) -> Factors:
    """Return factors of a model that is fitted without a share of the entities of each view.

    Entities of views without features stay. No checkpoints are written. Raise GraphError if a graph
    is not valid, ParameterError if the share is not, and as
    :func:`fit <pmvge.model.fitting.fit.fit>` does.
    """
    validation = check_graphs(graph, validation)
    seed = settings["random_state"]
    rng = np.random.default_rng([int(seed) if isinstance(seed, Integral) else 0, 8])
    held = _draw_entities(graph, share, rng)
    kept = {v: np.setdiff1d(np.arange(graph.sizes[v]), out) for v, out in held.items()}
    fitted = fit(
        settings | {"checkpoint_dir": None},
        graph.subgraph(kept),
        None if validation is None else validation.subgraph(kept),
        hold_out=hold_out,
        resume=False,
        sharded=False,
    )
    entities = {}
    for view, n in graph.sizes.items():
        positions, out = np.full(n, -1, np.int64), held.get(view)
        known = kept.get(view, np.arange(n))
        positions[known] = np.arange(len(known))
        outputs = np.empty((n, fitted.outputs[view].shape[1]), np.float32)
        outputs[known] = fitted.outputs[view]
        if out is not None:
            X: Any = graph.views[view]
            outputs[out] = find_entities(fitted, view, X[out], None).outputs
        entities[view] = Entities(outputs, positions)
    if validation is not None:
        graph = graph.with_links(
            {p: merge_links(links, validation.links.get(p)) for p, links in graph.links.items()}
        )
    return _with_factors(fitted, graph, entities, 1.0, show_progress=False).factors


def _draw_entities(
    graph: MultiViewGraph, share: Any, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Return positions of entities to hold out, a share of each linked view with features.

    Raise ParameterError if there is no such view, or if the share leaves a view empty.
    """
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise ParameterError(
            f"calibrate: expected a share of the entities in (0, 1), got {share!r}"
        )
    linked = {view for pair, links in graph.links.items() if len(links) for view in pair}
    held = {}
    for view, X in graph.views.items():
        if X is None or view not in linked:
            continue
        n = graph.sizes[view]
        count = max(1, round(float(share) * n))
        if count >= n:
            raise ParameterError(
                f"calibrate: view {view!r}: expected more entities than are held out, {count}, got "
                f"{n}"
            )
        held[view] = np.sort(rng.permutation(n)[:count])
    if not held:
        raise ParameterError("calibrate: expected a view with features and links, got none")
    return held


def _with_factors(
    fitted: Fitted,
    graph: MultiViewGraph,
    entities: Mapping[str, Entities],
    exposure: float,
    show_progress: bool,
) -> Fitted:
    """Return the model with the factors of a graph; other factors stay.

    Raise InputError if no link has a new entity.
    """
    found: dict[Pair, dict[str, Factor]] = {p: dict(f) for p, f in fitted.factors.items()}
    measured = False
    with progress_bar("calibrating", show_progress) as on_progress:
        for done, ((a, b), links) in enumerate(graph.links.items()):
            for block in kind_blocks(links, entities[a].new, entities[b].new):
                if block.kind in KINDS and len(block.links) and _has_alpha(fitted, a, b):
                    outputs = (entities[a].outputs[block.rows], entities[b].outputs[block.columns])
                    pair, kind = _stored(fitted, (a, b), block.kind)
                    factor = _factor(fitted, (a, b), block, *outputs, exposure)
                    found.setdefault(pair, {})[KINDS[kind]] = factor
                    measured = True
            if on_progress is not None:
                on_progress(done + 1, len(graph.links))
    if not measured:
        raise InputError(
            "calibrate: expected links of entities that were not in training, got none"
        )
    return replace(fitted, factors=found)


def _has_alpha(fitted: Fitted, a: str, b: str) -> bool:
    return math.isfinite(fitted.log_alpha_of(a, b))


def _stored(fitted: Fitted, pair: Pair, kind: tuple[int, int]) -> tuple[Pair, tuple[int, int]]:
    """Return a view pair and a kind in the order of the model's view pairs."""
    return (pair, kind) if pair in fitted.alpha else (pair[::-1], kind[::-1])


def _factor(
    fitted: Fitted,
    pair: Pair,
    block: KindBlock,
    Y: NDArray[np.float32],
    Y_other: NDArray[np.float32],
    exposure: float,
) -> Factor:
    """Return the factor of the entity pairs of one kind."""
    compared = fitted.pair_similarity.for_pair(*pair)
    a, b = names = pair if pair[0] != pair[1] or block.links.within else (pair[0], pair[1] + "'")
    graph = MultiViewGraph.trusted(
        {a: len(Y), b: len(Y_other)},
        {a: None, b: None},
        {a: np.arange(len(Y)), b: np.arange(len(Y_other))},
        {names: block.links},
        given_ids=(),
    )
    outputs = {a: Y, b: Y_other}
    trained = TrainedGraph(graph, None, outputs, outputs, compared)
    family = _family_of(fitted, pair, names)
    log_alpha, error, weight = family.fit_alphas(trained, np.random.default_rng(0))[names]
    log_new = log_alpha - math.log(exposure)
    bins = reliability_bins(
        compared.query_array(Y),
        compared.candidate_array(Y_other),
        block.links,
        log_alpha=log_new,
        exposure=exposure,
        similarity=compared,
        family=family,
        rng=np.random.default_rng(0),
    )
    shown = {
        name: tuple(getattr(bins, name).tolist())
        for name in ("expected", "observed", "error", "pairs")
    }
    # The variance of a total weight is the sum of w^2: that of Poisson events of these sizes.
    noise = math.sqrt(float(np.square(block.links.weights).sum())) / weight
    log_factor = log_new - fitted.log_alpha_of(*pair)
    return Factor(log_factor, math.hypot(error, noise), weight, shown)


def _family_of(fitted: Fitted, pair: Pair, names: Pair) -> Family:
    """Return a copy of the family of ``pair``, with its parameters under other names of the views.

    Within a view, new and known entities are two sides, which need two names. It is a copy because
    ``fit_alphas`` may set parameters.
    """
    family = copy.deepcopy(fitted.family_of(*pair))
    if pair in family.index:
        family.index[names] = family.index[pair]
    return family
