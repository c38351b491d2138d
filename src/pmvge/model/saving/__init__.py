"""The folder of a saved model: its manifest, settings, links and arrays."""
