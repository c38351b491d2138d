"""The estimator PMvGE: parameters, fitting, prediction, evaluation, saving."""

from pmvge.model.estimator import PMvGE
from pmvge.model.fitted import Labels
from pmvge.model.fitting import split_links
from pmvge.model.parameters import check_parameters
from pmvge.model.training_links import TrainingLinks
from pmvge.model.updating import NoNewRows

__all__ = ["Labels", "NoNewRows", "PMvGE", "TrainingLinks", "check_parameters", "split_links"]
