"""Tables to graphs, and later tables to rows of the same kind, by DuckDB."""

from pmvge.tables.later import read_links, read_rows, rows_of
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable, read_project
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
    "graph_from_frames",
    "read_graph",
    "read_links",
    "read_project",
    "read_rows",
    "read_tables",
    "rows_of",
]
