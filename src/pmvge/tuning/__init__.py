"""Search for better settings on held-out links."""

from pmvge.tuning.search import Trial, Tuned, tune
from pmvge.tuning.space import SEARCHED
from pmvge.tuning.study import load_optuna, quiet

__all__ = ["SEARCHED", "Trial", "Tuned", "load_optuna", "quiet", "tune"]
