"""The estimator PMvGE: parameters, fitting, prediction, saving."""

from pmvge.model.background import Background, Labels, evaluate_background, load_background
from pmvge.model.estimator import PMvGE
from pmvge.model.parameters import check_parameters
from pmvge.model.saving import read_consistently

__all__ = [
    "Background",
    "Labels",
    "PMvGE",
    "check_parameters",
    "evaluate_background",
    "load_background",
    "read_consistently",
]
