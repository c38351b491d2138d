"""The paper's other methods, under one contract."""

from pmvge.baselines.base import Baseline
from pmvge.baselines.cca import CCA
from pmvge.baselines.cdmca import CDMCA
from pmvge.baselines.cvge import CvGE
from pmvge.baselines.dcca import DCCA
from pmvge.baselines.himfac import HIMFAC
from pmvge.baselines.kernel_cca import KernelCCA
from pmvge.baselines.lpp import LPP
from pmvge.baselines.mcca import MCCA
from pmvge.baselines.sge import SGE

__all__ = ["CCA", "CDMCA", "DCCA", "HIMFAC", "LPP", "MCCA", "SGE", "Baseline", "CvGE", "KernelCCA"]
