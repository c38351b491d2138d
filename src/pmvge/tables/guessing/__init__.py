"""Guesses: the id, feature and link columns of tables, and a project for a folder."""
