"""Conversion of graphs to and from other libraries, one file each."""

from pmvge.interop.networkx import from_networkx, to_networkx

__all__ = ["from_networkx", "to_networkx"]
