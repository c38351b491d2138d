"""Data sets, one file each."""

from pmvge.datasets.cora import Cora, load_cora
from pmvge.datasets.digits import Digits, load_digits

__all__ = ["Cora", "Digits", "load_cora", "load_digits"]
