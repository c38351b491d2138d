"""Tables to graphs, and later tables to rows of the same kind, by DuckDB."""

from pmvge.tables.later import read_links, read_rows, rows_of
from pmvge.tables.mapped import open_features
from pmvge.tables.parquet import features_from_parquet, ids_from_parquet
from pmvge.tables.project import (
    Feature,
    LinkTable,
    Project,
    ViewTable,
    read_project,
    share_links,
)
from pmvge.tables.reading import DroppedRows, Tables, graph_from_frames, read_graph, read_tables
from pmvge.tables.sources import Source

__all__ = [
    "DroppedRows",
    "Feature",
    "LinkTable",
    "Project",
    "Source",
    "Tables",
    "ViewTable",
    "features_from_parquet",
    "graph_from_frames",
    "ids_from_parquet",
    "open_features",
    "read_graph",
    "read_links",
    "read_project",
    "read_rows",
    "read_tables",
    "rows_of",
    "share_links",
]
