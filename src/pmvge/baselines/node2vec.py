"""node2vec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pmvge.baselines.skip_gram import WalkMethod
from pmvge.checks import Check, real


class Node2Vec(WalkMethod):
    r"""Skip-gram on biased random walks.

    It is DeepWalk with walks that remember where they came from: a walk that came from t goes back
    with a weight multiplied by 1/p, and to nodes that are not linked to t by 1/q. A small q makes
    walks explore, a large one keeps them near, and a large p keeps them from turning back.

    .. math:: \max_{y, c} \sum_{(i, j) \in \text{walks}} [ \log \sigma(\langle c_j, y_i \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, y_i \rangle) ]

    Choose it where DeepWalk does well and there is held-out data to choose p and q by, which are 1
    in DeepWalk. It cannot embed a new node, and knows nothing of features.

    Parameters
    ----------
    n_components
        Dimension K.
    p
        Return parameter: how little a walk turns back.
    q
        In-out parameter: how little a walk moves away from the node it came from.
    n_walks
        Walks from every node.
    walk_length
        Nodes in a walk.
    window
        How far apart in a walk two nodes may be to count as a pair.
    n_negatives
        Noise nodes Q for each pair.
    hierarchical_softmax
        Whether a binary tree of nodes takes the place of noise.
    learning_rate
        At the start; it falls in a line to nearly 0.
    random_state
        Seed of the walks and of the model.

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
