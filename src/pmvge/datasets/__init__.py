"""Data sets, one file each."""

from pmvge.datasets.cora import Cora, load_cora

