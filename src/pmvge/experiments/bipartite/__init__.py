"""Links between two views that are known by similarities: drugs and targets, RNA."""
