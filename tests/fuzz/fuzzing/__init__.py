"""Damaged inputs for everything that reads files, and the judge of what comes of them."""
