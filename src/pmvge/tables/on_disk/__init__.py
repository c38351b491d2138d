"""Features in files that are mapped instead of read."""
