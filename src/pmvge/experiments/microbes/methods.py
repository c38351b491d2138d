"""Methods that predict the metabolites of a sample from its microbes.

A method gives one or more of: the distribution of metabolites given a microbe, the distribution of
metabolites in a sample given its microbes, and scores that match samples by both.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from pmvge.baselines import CCA
from pmvge.errors import choose
from pmvge.experiments.comparison import unit
from pmvge.experiments.recipe import model_settings
from pmvge.graph import MultiViewGraph
from pmvge.model import PMvGE

Array = NDArray[Any]
MICROBE, SAMPLE, MATCH = TARGETS = ("microbe", "sample", "match")
LETTERS = 4  # length of the parts of a sequence that are counted


@dataclass(frozen=True, eq=False)
class Problem:
    """Shares of microbes and metabolites in training samples and in new samples; rows sum to 1."""

    microbes: Array  # (n, m)
    metabolites: Array  # (n, t)
    new_microbes: Array  # (n', m)
    new_metabolites: Array  # (n', t), used by ``match`` only
    microbe_ids: Array
    metabolite_ids: Array

    @property
    def together(self) -> Array:
        """Return weights (m, t): how much a microbe and a metabolite are in the same samples."""
        return np.asarray(self.microbes.T @ self.metabolites)

    @property
    def mean(self) -> Array:
        """Return the mean shares of metabolites."""
        return np.asarray(self.metabolites.mean(axis=0))


class Predictor(ABC):
    """A method with settings. It has the targets of which it defines the method."""

    targets: tuple[str, ...]

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def given_microbe(self, problem: Problem, seed: int) -> Array:
        """Return the log of the distribution of metabolites given each microbe, (m, t)."""
        raise NotImplementedError

    def given_sample(self, problem: Problem, seed: int) -> Array:
        """Return the log of the distribution in each new sample, (n', t): a mixture by microbe."""
        log_p = self.given_microbe(problem, seed)
        with np.errstate(divide="ignore"):  # microbes that a sample has not
            log_share = np.log(problem.new_microbes)
        return np.asarray(logsumexp(log_share[:, :, None] + log_p, axis=1))

    def match(self, problem: Problem, seed: int) -> Array:
        """Return scores (n', n') of the new samples' metabolites for the new samples' microbes."""
        raise NotImplementedError


class MeanShares(Predictor):
    """The mean composition, whatever the microbes are."""

    targets = (MICROBE, SAMPLE)

    def given_microbe(self, problem: Problem, seed: int) -> Array:
        """Return the mean shares for every microbe."""
        return np.tile(np.log(problem.mean), (problem.microbes.shape[1], 1))


class SmoothedTogether(Predictor):
    r"""The shares of metabolites in the samples of a microbe, smoothed to the mean composition.

    .. math:: p(j \mid i) = \frac{w_{ij} + \lambda \bar b_j}{\sum_j w_{ij} + \lambda}
    """

    targets = (MICROBE, SAMPLE)

    def given_microbe(self, problem: Problem, seed: int) -> Array:
        """Return the smoothed shares."""
        W, smoothing = problem.together, float(self.settings["smoothing"])
        return np.asarray(
            np.log((W + smoothing * problem.mean) / (W.sum(axis=1, keepdims=True) + smoothing))
        )


class Neighbours(Predictor):
    """The mean metabolites of the nearest training samples by their microbes.

    Distances are between centred logarithms of shares. Part ``smoothing`` of a prediction is the
    mean composition.
    """

    targets = (SAMPLE, MATCH)

    def given_sample(self, problem: Problem, seed: int) -> Array:
        """Return the log of the smoothed means."""
        near = NearestNeighbors(n_neighbors=int(self.settings["neighbours"]))
        near.fit(centred_log(problem.microbes))
        found = near.kneighbors(centred_log(problem.new_microbes), return_distance=False)
        smoothing = float(self.settings["smoothing"])
        shares = problem.metabolites[found].mean(axis=1)
        return np.asarray(np.log((1 - smoothing) * shares + smoothing * problem.mean))

    def match(self, problem: Problem, seed: int) -> Array:
        """Return cosines of predicted and observed logarithms of shares, without their mean."""
        mean = centred_log(problem.metabolites).mean(axis=0)
        predicted = centred_log(np.exp(self.given_sample(problem, seed))) - mean
        return np.asarray(unit(predicted) @ unit(centred_log(problem.new_metabolites) - mean).T)


class Multinomial(Predictor):
    r"""The model of mmvec (J. Morton et al., Nature Methods 2019), written for this comparison.

    .. math:: p(j \mid i) = \mathrm{softmax}_j(\langle u_i, v_j \rangle + b_j), \qquad
              u, v, b \sim N(0, 1),

    fitted by Adam to the likelihood of a metabolite given a microbe of the same sample, over all
    microbes and metabolites of a sample at once, which is the mean of what mmvec draws at random.
    Every sample counts as ``depth`` draws.
    """

    targets = (MICROBE, SAMPLE)

    def given_microbe(self, problem: Problem, seed: int) -> Array:
        """Return the fitted distributions."""
        K, depth = int(self.settings["n_components"]), float(self.settings["depth"])
        generator = torch.Generator().manual_seed(seed)
        W = torch.from_numpy(depth * problem.together).float()
        m, t = W.shape
        U, V = (torch.randn((n, K), generator=generator).mul_(0.1) for n in (m, t))
        parameters = [each.requires_grad_() for each in (U, V, torch.zeros(t))]
        adam = torch.optim.Adam(parameters, lr=float(self.settings["rate"]))
        for _ in range(int(self.settings["steps"])):
            adam.zero_grad()
            self.loss(W, *parameters).backward()
            adam.step()
        with torch.no_grad():
            return _log_shares(*parameters).double().numpy()

    @staticmethod
    def loss(W: torch.Tensor, U: torch.Tensor, V: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return minus the log of likelihood times prior, per draw."""
        prior = sum((each**2).sum() for each in (U, V, b)) / 2
        return (prior - (W * _log_shares(U, V, b)).sum()) / W.sum()


def _log_shares(U: torch.Tensor, V: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(U @ V.T + b, dim=1)


class Correlations(Predictor):
    """CCA of centred logarithms of shares."""

    targets = (MATCH,)

    def match(self, problem: Problem, seed: int) -> Array:
        """Return cosines of canonical variables."""
        graph, new = _profiles(problem)
        model = CCA(**self.settings).fit(graph)
        Y, Y_other = (model.embed(view, X) for view, X in new.items())
        return np.asarray(unit(Y) @ unit(Y_other).T)


class Ours(Predictor):
    """PMvGE, with the links that a target needs; the total weight of a sample is ``depth``.

    - ``microbe``: links of microbes and metabolites, as for mmvec. ``features``: counts of the
      parts of a microbe's sequence, and mass and retention time of a metabolite.
    - ``sample``: links of samples, whose features are their microbes, and metabolites.
    - ``match``: links of samples' microbes and the same samples' metabolites, both as features.
    """

    def __init__(
        self,
        *,
        targets: Sequence[str] = TARGETS,
        depth: float = 30.0,
        features: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(**model_settings(settings))
        self.targets = tuple(choose("target", target, TARGETS) for target in targets)
        self.depth, self.features = depth, features

    def _fit(self, graph: MultiViewGraph, seed: int) -> PMvGE:
        return PMvGE(**self.settings, random_state=seed, progress=False).fit(graph)

    def given_microbe(self, problem: Problem, seed: int) -> Array:
        """Return conditional shares of expected weights."""
        W = self.depth * problem.together
        views: dict[str, Any] = {"microbe": W.shape[0], "metabolite": W.shape[1]}
        if self.features:
            views = {
                "microbe": sequence_features(problem.microbe_ids),
                "metabolite": mass_features(problem.metabolite_ids),
            }
        model = self._fit(MultiViewGraph(views, {("microbe", "metabolite"): W}), seed)
        Y = model.vectors("microbe", among="metabolite", side="query")
        Y_other = model.vectors("metabolite", among="microbe", side="candidate")
        return np.asarray(log_softmax(Y.astype(np.float64) @ Y_other.T, axis=1))

    def given_sample(self, problem: Problem, seed: int) -> Array:
        """Return shares of the expected weights of new samples."""
        X = centred_log(problem.microbes)
        views: dict[str, Any] = {"sample": X, "metabolite": problem.metabolites.shape[1]}
        links = {("sample", "metabolite"): self.depth * problem.metabolites}
        model = self._fit(MultiViewGraph(views, links), seed)
        new = centred_log(problem.new_microbes)
        Y = model.vectors("sample", new, among="metabolite", side="query")
        Y_other = model.vectors("metabolite", among="sample", side="candidate")
        return np.asarray(log_softmax(Y.astype(np.float64) @ Y_other.T, axis=1))

    def match(self, problem: Problem, seed: int) -> Array:
        """Return similarities of new samples."""
        graph, new = _profiles(problem)
        model = self._fit(graph, seed)
        (a, X), (b, X_other) = new.items()
        Y = model.vectors(a, X, among=b, side="query")
        return np.asarray(Y @ model.vectors(b, X_other, among=a, side="candidate").T)


PREDICTORS: dict[str, type[Predictor]] = {
    "mean": MeanShares,
    "co-occurrence": SmoothedTogether,
    "neighbours": Neighbours,
    "mmvec": Multinomial,
    "CCA": Correlations,
    "PMvGE": Ours,
}


def make_predictor(method: str, settings: Mapping[str, Any]) -> Predictor:
    """Return a method by name; raise ParameterError if the name is unknown."""
    return PREDICTORS[choose("method", method, PREDICTORS)](**settings)


def centred_log(shares: Array) -> Array:
    """Return logarithms of shares minus their mean in each row; 0 counts as half the least."""
    positive = np.where(shares > 0, shares, shares[shares > 0].min() / 2)
    logs = np.log(positive)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _profiles(problem: Problem) -> tuple[MultiViewGraph, dict[str, Array]]:
    """Return a graph that links both profiles of each training sample, and new profiles by view."""
    known, new = {}, {}
    for view, shares, new_shares in (
        ("microbes", problem.microbes, problem.new_microbes),
        ("metabolites", problem.metabolites, problem.new_metabolites),
    ):
        scale = StandardScaler().fit(centred_log(shares))
        known[view], new[view] = (scale.transform(centred_log(x)) for x in (shares, new_shares))
    pairs = np.eye(len(problem.microbes))
    return MultiViewGraph(known, {("microbes", "metabolites"): pairs}), new


def sequence_features(sequences: Array) -> Array:
    """Return shares of all words of four letters in each sequence."""
    words = ["".join(word) for word in itertools.product("ACGT", repeat=LETTERS)]
    at = {word: k for k, word in enumerate(words)}
    counts = np.zeros((len(sequences), len(words)), np.float32)
    for row, sequence in enumerate(map(str, sequences)):
        for k in range(len(sequence) - LETTERS + 1):
            if (word := sequence[k : k + LETTERS]) in at:
                counts[row, at[word]] += 1
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def mass_features(ids: Array) -> Array:
    """Return mass and retention time from ids such as "X290.0883mz60.1277"; 0 if there are none."""
    found = [re.fullmatch(r"X([\d.]+)mz([\d.]+)", str(each)) for each in ids]
    return np.array(
        [[float(match[1]), float(match[2])] if match else [0.0, 0.0] for match in found], np.float32
    )
