"""Columns to numbers: SQL casts, encodings, and the recipe that a model saves."""
