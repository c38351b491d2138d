"""Fuzz all readers of files: damage valid inputs, read them, classify the outcomes."""
