"""Coordinates of entities in two dimensions."""

from pmvge.maps.affinities import Relation
from pmvge.maps.placing import Coordinates, layout, place, stratified

__all__ = ["Coordinates", "Relation", "layout", "place", "stratified"]
