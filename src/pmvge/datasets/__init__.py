"""Data sets: their registry, downloads and loaders."""

from pmvge.datasets.awa import PARTS, Attributes, load_attributes, load_images
from pmvge.datasets.bipartite import FOLDS, Bipartite, load_bipartite
from pmvge.datasets.cora import Cora, load_cora
from pmvge.datasets.digits import NAMES, Digits, load_digits
from pmvge.datasets.downloads import data_folder, download
from pmvge.datasets.lastfm import LinkSplit, load_lastfm, load_lastfm_split
from pmvge.datasets.microbes import load_microbes
from pmvge.datasets.movielens import load_movielens
from pmvge.datasets.registry import DATASETS, Archive, Dataset
from pmvge.datasets.side_effects import load_side_effects
from pmvge.datasets.vectors import load_vectors
from pmvge.datasets.wordnet import load_wordnet

__all__ = [
    "DATASETS",
    "FOLDS",
    "NAMES",
    "PARTS",
    "Archive",
    "Attributes",
    "Bipartite",
    "Cora",
    "Dataset",
    "Digits",
    "LinkSplit",
    "data_folder",
    "download",
    "load_attributes",
    "load_bipartite",
    "load_cora",
    "load_digits",
    "load_images",
    "load_lastfm",
    "load_lastfm_split",
    "load_microbes",
    "load_movielens",
    "load_side_effects",
    "load_vectors",
    "load_wordnet",
]
