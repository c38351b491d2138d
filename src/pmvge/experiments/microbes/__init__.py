"""Microbes and metabolites of the same samples."""
