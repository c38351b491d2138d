"""The map of a model: coordinates of its entities, their check and their file."""
