"""The estimator PMvGE: parameters, fitting, prediction, evaluation, saving."""

from pmvge.model.describe import setting_text
from pmvge.model.encoder_module import EncoderModule, linked_views
from pmvge.model.estimator import PMvGE
from pmvge.model.explain.explanation import Evidence, Explanation, Part
from pmvge.model.fitted import Labels
from pmvge.model.fitting.fit_inputs import split_links
from pmvge.model.fitting.regressions import find_regressions
from pmvge.model.fitting.updating import NoNewRows
from pmvge.model.mapping.compute import compute_map, sample_map, saved_map
from pmvge.model.mapping.map_file import Map
from pmvge.model.parameters import check_parameters
from pmvge.model.searching.indexes import Index
from pmvge.model.searching.partners import (
    Chunk,
    best_partners,
    check_columns,
    entity_texts,
    index_of_similar,
    positions_of,
    training_positions,
)
from pmvge.model.training_links import TrainingLinks

__all__ = [
    "Chunk",
    "EncoderModule",
    "Evidence",
    "Explanation",
    "Index",
    "Labels",
    "Map",
    "NoNewRows",
    "PMvGE",
    "Part",
    "TrainingLinks",
    "best_partners",
    "check_columns",
    "check_parameters",
    "compute_map",
    "entity_texts",
    "find_regressions",
    "index_of_similar",
    "linked_views",
    "positions_of",
    "sample_map",
    "saved_map",
    "setting_text",
    "split_links",
    "training_positions",
]
