"""Where a table is, and how DuckDB selects from it."""
