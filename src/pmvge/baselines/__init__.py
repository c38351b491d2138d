"""Other embedding methods with the same interface as PMvGE."""

from pmvge.baselines.base import Baseline
from pmvge.baselines.cdmca import CDMCA
from pmvge.baselines.chebnet import ChebNet
from pmvge.baselines.dcca import DCCA
from pmvge.baselines.deepwalk import DeepWalk
from pmvge.baselines.factorization_machine import FactorizationMachine
from pmvge.baselines.gcn import GCN
from pmvge.baselines.gnn import GNN
from pmvge.baselines.graphsage import GraphSAGE
from pmvge.baselines.idw import IDW
from pmvge.baselines.kernel_cca import KernelCCA
from pmvge.baselines.line import LINE
from pmvge.baselines.linear import leading_axes
from pmvge.baselines.manifold import LLE, MDS, Isomap
from pmvge.baselines.node2vec import Node2Vec
from pmvge.baselines.sbm import SBM
from pmvge.baselines.sge import SGE
from pmvge.baselines.special_cases import CCA, HIMFAC, LPP, MCCA, CvGE

__all__ = [
    "CCA",
    "CDMCA",
    "DCCA",
    "GCN",
    "GNN",
    "HIMFAC",
    "IDW",
    "LINE",
    "LLE",
    "LPP",
    "MCCA",
    "MDS",
    "SBM",
    "SGE",
    "Baseline",
    "ChebNet",
    "CvGE",
    "DeepWalk",
    "FactorizationMachine",
    "GraphSAGE",
    "Isomap",
    "KernelCCA",
    "Node2Vec",
    "leading_axes",
]
