"""Graphs from files, databases and data frames, and new rows and links for a fitted model."""

from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.saved import check_saved_tables
from pmvge.tables.feature_parts import FeaturePart, row_parts
from pmvge.tables.guessing.questions import Question, UnsureError
from pmvge.tables.guessing.sketch import Sketch, sketch_project
from pmvge.tables.joining import JoinSummary
from pmvge.tables.new_links import pair_of, read_first_links, read_links
from pmvge.tables.new_rows import read_labels, read_rows, rows_of
from pmvge.tables.on_disk.mapped import open_features
from pmvge.tables.on_disk.parquet import features_from_parquet, ids_from_parquet
from pmvge.tables.project import (
    Feature,
    LinkTable,
    Project,
    ViewTable,
    share_links,
)
from pmvge.tables.project_file import parse_toml, read_project
from pmvge.tables.reading import DroppedRows, Tables, graph_from_frames, read_graph, read_tables
from pmvge.tables.records import links_of_records, rows_of_records
from pmvge.tables.saved_columns import as_in_training
from pmvge.tables.saved_tables import feature_columns, link_pairs, saved_id
from pmvge.tables.sources.dialect import Dialect
from pmvge.tables.sources.source import Source
from pmvge.tables.splitting import TableSplit, split_table, write_split
from pmvge.tables.value_notes import describe_values
from pmvge.tables.weights import WeightWarning, weight_notes
from pmvge.tables.writing import fold_columns, project_text

__all__ = [
    "Dialect",
    "DroppedRows",
    "Feature",
    "FeaturePart",
    "JoinSummary",
    "LinkTable",
    "Notes",
    "Project",
    "Question",
    "Sketch",
    "Source",
    "TableSplit",
    "Tables",
    "UnsureError",
    "ViewTable",
    "WeightWarning",
    "as_in_training",
    "check_saved_tables",
    "describe_values",
    "feature_columns",
    "features_from_parquet",
    "fold_columns",
    "graph_from_frames",
    "ids_from_parquet",
    "link_pairs",
    "links_of_records",
    "open_features",
    "pair_of",
    "parse_toml",
    "project_text",
    "read_first_links",
    "read_graph",
    "read_labels",
    "read_links",
    "read_project",
    "read_rows",
    "read_tables",
    "row_parts",
    "rows_of",
    "rows_of_records",
    "saved_id",
    "share_links",
    "sketch_project",
    "split_table",
    "weight_notes",
    "write_split",
]
