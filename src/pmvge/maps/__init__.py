"""Coordinates of vectors in two dimensions."""

from pmvge.maps.placing import layout, project, stratified

__all__ = ["layout", "project", "stratified"]
