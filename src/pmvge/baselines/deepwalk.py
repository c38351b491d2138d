"""DeepWalk: skip-gram on random walks."""

from __future__ import annotations

from typing import Any

from pmvge.baselines.skip_gram import WalkMethod


class DeepWalk(WalkMethod):
    r"""Skip-gram on random walks.

    Random walks along links are sentences, and nodes are words. The skip-gram word model then gives
    close vectors to nodes that occur near the same nodes.

    .. math:: \max_{y, c} \sum_{(i, j) \in \text{walks}} [ \log \sigma(\langle c_j, y_i \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, y_i \rangle) ]

    Choose it for a graph without features, with communities that extend beyond direct neighbours.
    It ignores features and cannot embed new nodes.

    Parameters
    ----------
    n_components
        Dimension K.
    n_walks
        Walks from every node.
    walk_length
        Nodes in a walk.
    window
        Largest distance of two nodes in a walk that count as a pair.
    n_negatives
        Negative samples Q per pair.
    hierarchical_softmax
        Whether to use hierarchical softmax, a binary tree of nodes, instead of negative samples, as
        the original version of the method does.
    learning_rate
        Initial learning rate; it decreases linearly to 1/250 of it.
    random_state
        Seed of the walks and of the skip-gram model.

    References
    ----------
    B. Perozzi, R. Al-Rfou and S. Skiena, "DeepWalk: online learning of social representations",
    KDD 2014.

    T. Mikolov, I. Sutskever, K. Chen, G. Corrado and J. Dean, "Distributed representations of
    words and phrases and their compositionality", NIPS 2013.
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_walks: int = 10,
        walk_length: int = 40,
        window: int = 10,
        n_negatives: int = 5,
        hierarchical_softmax: bool = False,
        learning_rate: float = 0.025,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_walks = n_walks
        self.walk_length = walk_length
        self.window = window
        self.n_negatives = n_negatives
        self.hierarchical_softmax = hierarchical_softmax
        self.learning_rate = learning_rate
        self.random_state = random_state
