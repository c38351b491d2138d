"""Table sources (files, databases, queries, data frames) and the DuckDB connection."""
