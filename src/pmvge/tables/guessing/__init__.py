"""What a table and its columns are likely to mean."""
