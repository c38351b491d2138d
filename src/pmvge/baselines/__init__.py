"""The paper's other methods, under one contract."""

from pmvge.baselines.base import Baseline
from pmvge.baselines.sge import SGE

__all__ = ["SGE", "Baseline"]
