"""Recommenders on links between users and films or artists."""
