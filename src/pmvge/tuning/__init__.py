"""Search for better settings on held-out links."""

from pmvge.tuning.cross_validation import LinkKFold, LinkSamples, link_scorer
from pmvge.tuning.search import Trial, Tuned, tune
from pmvge.tuning.space import SEARCHED
from pmvge.tuning.study import load_optuna, quiet

__all__ = [
    "SEARCHED",
    "LinkKFold",
    "LinkSamples",
    "Trial",
    "Tuned",
    "link_scorer",
    "load_optuna",
    "quiet",
    "tune",
]
