"""DeepWalk."""

from __future__ import annotations

from typing import Any

from pmvge.baselines.skip_gram import WalkMethod


class DeepWalk(WalkMethod):
    r"""Skip-gram on random walks.

    Walks at random along links and reads the walks as sentences, in which nodes are words. A word
    model then gives two nodes close vectors if the same nodes stand around them.

    .. math:: \max_{y, c} \sum_{(i, j) \in \text{walks}} [ \log \sigma(\langle c_j, y_i \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, y_i \rangle) ]

    Choose it for a graph without features whose communities reach further than direct neighbours.
    It cannot embed a new node, and knows nothing of features.

    Parameters
    ----------
    n_components
        Dimension K.
    n_walks
        Walks from every node.
    walk_length
        Nodes in a walk.
    window
        How far apart in a walk two nodes may be to count as a pair.
    n_negatives
        Noise nodes Q for each pair.
    hierarchical_softmax
        Whether a binary tree of nodes takes the place of noise, as in the method's first version.
    learning_rate
        At the start; it falls in a line to nearly 0.
    random_state
        Seed of the walks and of the model.

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
