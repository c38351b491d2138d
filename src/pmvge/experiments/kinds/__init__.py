"""Comparisons of similarities and likelihood families."""
