"""Columns to numbers."""
