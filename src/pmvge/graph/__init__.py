"""Multi-view graphs: entities of several views, their features and their links."""

from pmvge.graph.features import (
    CHUNK,
    Features,
    all_finite,
    check_features,
    check_rows,
    is_mapped,
    row_shape,
)
from pmvge.graph.ids import (
    FEW_IDS,
    Ids,
    as_ids,
    as_input_ids,
    check_ids,
    find_ids,
    known_positions,
    require_known,
    sort_ids,
)
from pmvge.graph.link_tables import parse_links
from pmvge.graph.links import (
    Links,
    Pair,
    canonical,
    compact_weights,
    find_links,
    merge_links,
    pair_key,
)
from pmvge.graph.multi_view_graph import MultiViewGraph
from pmvge.graph.rows import SparseRows, take
from pmvge.graph.scaling import column_scaling, row_scaling, standard_scale
from pmvge.graph.split import NodeSplit, hold_out_links, hold_out_nodes
from pmvge.graph.validation import check_pairs, check_views
from pmvge.graph.walks import (
    WalkSampler,
    cooccurrences,
    draw_between,
    multi_step_weights,
    transition_probabilities,
)
from pmvge.graph.weights import dominant_pair, effective_share, has_heavy_tail

__all__ = [
    "CHUNK",
    "FEW_IDS",
    "Features",
    "Ids",
    "Links",
    "MultiViewGraph",
    "NodeSplit",
    "Pair",
    "SparseRows",
    "WalkSampler",
    "all_finite",
    "as_ids",
    "as_input_ids",
    "canonical",
    "check_features",
    "check_ids",
    "check_pairs",
    "check_rows",
    "check_views",
    "column_scaling",
    "compact_weights",
    "cooccurrences",
    "dominant_pair",
    "draw_between",
    "effective_share",
    "find_ids",
    "find_links",
    "has_heavy_tail",
    "hold_out_links",
    "hold_out_nodes",
    "is_mapped",
    "known_positions",
    "merge_links",
    "multi_step_weights",
    "pair_key",
    "parse_links",
    "require_known",
    "row_scaling",
    "row_shape",
    "sort_ids",
    "standard_scale",
    "take",
    "transition_probabilities",
]
