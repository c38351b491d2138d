"""Entities of several views, their features, and the links between them."""

from pmvge.graph.features import (
    CHUNK,
    Features,
    all_finite,
    check_features,
    check_rows,
    is_mapped,
    row_shape,
)
from pmvge.graph.ids import Ids, as_ids, check_ids, find, trained_positions
from pmvge.graph.link_tables import parse_links
from pmvge.graph.links import Links, Pair, canonical, merged, one_or_all
from pmvge.graph.multi_view_graph import MultiViewGraph
from pmvge.graph.rows import SparseRows, take
from pmvge.graph.scaling import column_scaling, row_scaling
from pmvge.graph.split import NodeSplit, hold_out_links, hold_out_nodes
from pmvge.graph.validation import check_pairs, check_views
from pmvge.graph.walks import (
    WalkSampler,
    cooccurrences,
    draw_between,
    multi_step_weights,
    row_shares,
)

__all__ = [
    "CHUNK",
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
    "canonical",
    "check_features",
    "check_ids",
    "check_pairs",
    "check_rows",
    "check_views",
    "column_scaling",
    "cooccurrences",
    "draw_between",
    "find",
    "hold_out_links",
    "hold_out_nodes",
    "is_mapped",
    "merged",
    "multi_step_weights",
    "one_or_all",
    "parse_links",
    "row_scaling",
    "row_shape",
    "row_shares",
    "take",
    "trained_positions",
]
