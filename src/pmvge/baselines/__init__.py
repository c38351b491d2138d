"""The paper's other methods, under one contract.

Every class has its settings in the constructor, ``fit(graph)``, ``embeddings_``, ``embed(view, X)``
where it is inductive, and the flags of the paper's table 1.
"""

from pmvge.baselines.base import Baseline
from pmvge.baselines.cca import CCA
from pmvge.baselines.cdmca import CDMCA
from pmvge.baselines.chebnet import ChebNet
from pmvge.baselines.cvge import CvGE
from pmvge.baselines.dcca import DCCA
from pmvge.baselines.deepwalk import DeepWalk
from pmvge.baselines.factorization_machine import FactorizationMachine
from pmvge.baselines.gcn import GCN
from pmvge.baselines.gnn import GNN
from pmvge.baselines.graphsage import GraphSAGE
from pmvge.baselines.himfac import HIMFAC
from pmvge.baselines.idw import IDW
from pmvge.baselines.isomap import Isomap
from pmvge.baselines.kernel_cca import KernelCCA
from pmvge.baselines.line import LINE
from pmvge.baselines.lle import LLE
from pmvge.baselines.lpp import LPP
from pmvge.baselines.mcca import MCCA
from pmvge.baselines.mds import MDS
from pmvge.baselines.node2vec import Node2Vec
from pmvge.baselines.sbm import SBM
from pmvge.baselines.sge import SGE

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
]
