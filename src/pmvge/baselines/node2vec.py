"""node2vec: skip-gram on biased random walks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pmvge.baselines.skip_gram import WalkMethod
from pmvge.checks import Check, real


class Node2Vec(WalkMethod):
    r"""Skip-gram on biased random walks.

    DeepWalk with walks of second order. After a step from t, the weight of returning to t is
    multiplied by 1/p, and the weight of nodes that are not linked to t by 1/q. With a small q walks
    explore, with a large q they stay near, and with a large p they rarely turn back.

    .. math:: \max_{y, c} \sum_{(i, j) \in \text{walks}} [ \log \sigma(\langle c_j, y_i \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, y_i \rangle) ]

    Choose it where DeepWalk works well and there are held-out links to choose p and q with;
    DeepWalk has p = q = 1. It ignores features and cannot embed new nodes.

    Parameters
    ----------
    n_components
        Dimension K.
    p
        Return parameter: the larger, the less often a walk turns back.
    q
        In-out parameter: the larger, the closer a walk stays to its previous nodes.
    n_walks
        Walks from every node.
    walk_length
        Nodes in a walk.
    window
        Largest distance of two nodes in a walk that count as a pair.
    n_negatives
        Negative samples Q per pair.
    hierarchical_softmax
        Whether to use hierarchical softmax, a binary tree of nodes, instead of negative samples.
    learning_rate
        Initial learning rate; it decreases linearly to 1/250 of it.
    random_state
        Seed of the walks and of the skip-gram model.

    References
    ----------
    A. Grover and J. Leskovec, "node2vec: scalable feature learning for networks", KDD 2016.
    """

    checks: ClassVar[Mapping[str, Check]] = {
        **WalkMethod.checks,
        "p": real(0, open_low=True),
        "q": real(0, open_low=True),
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        p: float = 1.0,
        q: float = 0.5,
        n_walks: int = 10,
        walk_length: int = 40,
        window: int = 10,
        n_negatives: int = 5,
        hierarchical_softmax: bool = False,
        learning_rate: float = 0.025,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.p = p
        self.q = q
        self.n_walks = n_walks
        self.walk_length = walk_length
        self.window = window
        self.n_negatives = n_negatives
        self.hierarchical_softmax = hierarchical_softmax
        self.learning_rate = learning_rate
        self.random_state = random_state

    @property
    def _bias(self) -> tuple[float, float]:
        return self.p, self.q
