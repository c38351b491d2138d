"""PMvGE, the estimator that people use."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import nn

from pmvge.checks import NotFitted
from pmvge.encoders import EncoderSpec, ViewSchema, describe_choice, embed_rows
from pmvge.errors import InputError, StorageError, choose
from pmvge.graph import CHUNK, Ids, MultiViewGraph, Pair, check_rows, trained_positions
from pmvge.likelihoods import intensity, log_likelihood
from pmvge.model.background import Background
from pmvge.model.fitting import Fitted, fit
from pmvge.model.saving import load_model, of_one_save, save_model
from pmvge.progress import progress_bar
from pmvge.search import Embeddings, save_whole, stream, top_k
from pmvge.training import History

Encoder = str | EncoderSpec | dict[str, str | EncoderSpec | nn.Module]


class PMvGE(BaseEstimator):
    r"""Probabilistic Multi-view Graph Embedding.

    One encoder per view maps entities of different kinds into one space, where inner products give
    the expected weight of every link. It is fitted by maximum likelihood on minibatches, and new
    entities are embedded from their features.

    .. math:: \max_{\alpha, f} \sum_{i,j} [ w_{ij} \log \mu_{ij} - \mu_{ij} ], \qquad
              \mu_{ij} = \alpha^{(d_i, d_j)} \exp \langle f^{(d_i)}(x_i), f^{(d_j)}(x_j) \rangle

    Choose it for several kinds of things with features of their own and weighted many-to-many
    links, above all when new things must be placed. It needs a training loop; what a linear map
    can do, CDMCA does without one.

    Parameters
    ----------
    n_components
        Dimension K of the shared space.
    encoder
        "mlp" or "linear" for all views with features (those without get "lookup"), or
        ``{view: name, EncoderSpec or torch.nn.Module}``; also "lookup" and "identity".
        The same module for two views is shared between them.
    hidden_sizes, activation, output_activation, batch_norm, dropout
        Of "mlp": layer widths; "tanh", "relu", "gelu", "sigmoid" or "identity"; the same for the
        last layer; batch normalisation and dropout of the hidden layers.
    input_dropout
        Dropout of the input columns; None means 0.5 for sparse views and 0 for dense ones.
    standardize
        Standardise dense columns, and scale sparse rows, by the training rows' statistics.
    similarity
        "inner", the paper's, or "cosine": vectors on a sphere whose radius is learned.
    scheme
        "block": profile likelihood on importance-sampled blocks; "paper": the paper's section 4.
    batch_size
        Links drawn in a step ("block"), or the paper's m ("paper").
    negative_rate
        Uniform nodes a side per drawn link ("block"), or the paper's r ("paper").
    tau
        The paper's weight of the uniform pairs; None means the unbiased |I| / (r |W|).
    max_epochs, max_steps
        When to stop at the latest. An epoch is as many link draws as there are links. None for
        both means 30 epochs, but no fewer than 1,000 steps, and no more than 3,000 unless those
        are fewer than 3 epochs; given both, what comes first.
    learning_rate, schedule, decay_every, decay_factor
        Of Adam; "constant", "cosine" (to 0 at the last step) or "step" (times ``decay_factor``
        every ``decay_every`` steps).
    weight_decay, clip_norm
        Decoupled decay of the weight matrices; largest norm of a gradient, None for no limit.
    validation_fraction, patience
        Share of the links held out, if no validation graph is given to ``fit``, and the number of
        checks without improvement on them before training stops; the best weights are kept.
        ``patience=None``: nothing is held out, all steps are made.
    checkpoint_dir, checkpoint_steps, checkpoint_seconds
        Where, and how often, the state of training is written, for ``fit(graph, resume=True)``.
    device
        "auto", "cpu", "cuda" or "mps".
    precision
        Of the encoders' products in training: "float32", or "bfloat16" where that works, which
        is tried first.
    random_state
        Seed, or numpy generator. The same seed and thread count give the same bits.
    progress
        Show a progress bar while fitting, and whenever embedding, searching or judging takes more
        than a second, if the error stream is a terminal.

    Attributes
    ----------
    embeddings_
        ``{view: (n, K)}`` of the training entities, float32.
    ids_
        ``{view: (n,)}``, their ids.
    view_names_
        The views, which are the axes of ``alpha_``.
    alpha_
        (D, D), symmetric, 0 for pairs that were not observed.
    log_alpha_
        ``{(view, view): log alpha}`` of the observed pairs: what ``alpha_`` holds, in full range.
    alpha_weight_
        ``{(view, view): total weight}`` that alpha was computed from, validation links included.
    alpha_error_
        ``{(view, view): relative standard error}``; 0 where alpha was computed exactly.
    history_
        The training record, a :class:`~pmvge.history.History`.
    tables_
        How raw tables become rows, if the graph was read from tables; else None.

    References
    ----------
    A. Okuno, T. Hada and H. Shimodaira, "A probabilistic framework for multi-view feature learning
    with many-to-many associations via neural networks", ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from pmvge import MultiViewGraph, PMvGE
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> links = (np.arange(60), (X[:, 0] > 0).astype(int))
    >>> graph = MultiViewGraph({"item": X, "side": 2}, {("item", "side"): links})
    >>> model = PMvGE(n_components=4, max_steps=200, random_state=0).fit(graph)
    >>> ids, mu = model.search("item", [[2.0, 0, 0, 0, 0], [-2.0, 0, 0, 0, 0]], among="side", k=1)
    >>> ids.ravel().tolist()
    [1, 0]
    """

    # What the method can do, as in the paper's table 1.
    n_views: ClassVar[Literal["D"]] = "D"
    many_to_many: ClassVar[bool] = True
    nonlinear: ClassVar[bool] = True
    inductive: ClassVar[bool] = True
    likelihood_based: ClassVar[bool] = True

    embeddings_: dict[str, NDArray[np.float32]]
    ids_: dict[str, Ids]
    view_names_: tuple[str, ...]
    alpha_: NDArray[np.float64]
    log_alpha_: dict[Pair, float]
    alpha_weight_: dict[Pair, float]
    alpha_error_: dict[Pair, float]
    history_: History
    tables_: Mapping[str, Any] | None

    def __init__(
        self,
        n_components: int = 100,
        *,
        encoder: Encoder = "mlp",
        hidden_sizes: tuple[int, ...] = (256,),
        activation: str = "relu",
        output_activation: str = "identity",
        batch_norm: bool = False,
        dropout: float = 0.3,
        input_dropout: float | None = None,
        standardize: bool = True,
        similarity: str = "cosine",
        scheme: str = "block",
        batch_size: int = 512,
        negative_rate: float = 1.0,
        tau: float | None = None,
        max_epochs: float | None = None,
        max_steps: int | None = None,
        learning_rate: float = 2e-3,
        schedule: str = "constant",
        decay_every: int = 100,
        decay_factor: float = 0.1,
        weight_decay: float = 0.0,
        clip_norm: float | None = 10.0,
        validation_fraction: float = 0.1,
        patience: int | None = 5,
        checkpoint_dir: str | Path | None = None,
        checkpoint_steps: int | None = None,
        checkpoint_seconds: float | None = 60.0,
        device: str = "auto",
        precision: str = "float32",
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.n_components = n_components
        self.encoder = encoder
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.output_activation = output_activation
        self.batch_norm = batch_norm
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.standardize = standardize
        self.similarity = similarity
        self.scheme = scheme
        self.batch_size = batch_size
        self.negative_rate = negative_rate
        self.tau = tau
        self.max_epochs = max_epochs
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.decay_every = decay_every
        self.decay_factor = decay_factor
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_steps = checkpoint_steps
        self.checkpoint_seconds = checkpoint_seconds
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.progress = progress

    def fit(
        self,
        graph: MultiViewGraph,
        validation: MultiViewGraph | None = None,
        *,
        resume: bool = False,
        sharded: bool = False,
    ) -> Self:
        """Learn encoders and alpha.

        Started by ``torchrun``, all processes train one model together, each on its share of the
        links; after a restart they go on from the checkpoint.

        Parameters
        ----------
        graph
            The training graph.
        validation
            Held-out links on the same nodes, for early stopping. Without it, a share
            ``validation_fraction`` of the links is held out. Either way alpha is in the end
            computed from all links, so a link should not stand in both graphs.
        resume
            Go on from the checkpoint in ``checkpoint_dir``, if there is one.
        sharded
            In several processes: ``graph`` and ``validation`` hold only this process's own links.
            All nodes of featureless views are in every process; views with features may have
            other nodes in each.
        """
        settings = self.get_params(deep=False)
        self._take(fit(settings, graph, validation, resume=resume, sharded=sharded))
        return self

    def __sklearn_clone__(self) -> Self:
        # One copy of all: scikit-learn's own takes a dict apart, and a module shared by two views
        # would become two.
        return type(self)(**copy.deepcopy(self.get_params(deep=False)))

    def _take(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.embeddings_, self.ids_ = fitted.embeddings, fitted.ids
        self.view_names_, self.history_ = tuple(fitted.schemas), fitted.history
        self.tables_ = fitted.tables
        self.log_alpha_ = {pair: entry.log_value for pair, entry in fitted.alpha.items()}
        self.alpha_weight_ = {pair: entry.weight for pair, entry in fitted.alpha.items()}
        self.alpha_error_ = {pair: entry.relative_error for pair, entry in fitted.alpha.items()}
        self.alpha_ = np.zeros((len(self.view_names_),) * 2)
        for (a, b), entry in fitted.alpha.items():
            i, j = self.view_names_.index(a), self.view_names_.index(b)
            self.alpha_[i, j] = self.alpha_[j, i] = entry.value

    # -- using it ---------------------------------------------------------------------------

    def embed(self, view: str, X: Any) -> NDArray[np.float32]:
        r"""Embed entities of a view from their features: (n, ...) to (n, K).

        ``embed(a) @ embed(b).T`` is :math:`g`, any learned scale included. For a featureless view
        X are ids that were in training.
        """
        self._known(view)
        with progress_bar(f"embedding {view}", self.progress) as on_progress:
            return self._embed(view, X, on_progress=on_progress)

    def embed_to(self, path: str | Path, view: str, X: Any, ids: Any = None) -> int:
        """Embed any number of rows and write ids and vectors to a Parquet file; return how many.

        The vectors are those of :meth:`embed`, but only some thousands of rows are held, and
        checked, at a time: X may be a memory map larger than memory, or an iterator of blocks of
        rows, or of pairs ``(ids, rows)`` as :func:`pmvge.tables.read_rows` yields them.

        ``ids`` are the ids of all rows; without them rows are numbered from 0. Repeats are not
        looked for. For a featureless view X are ids, and there are no others. The file has the
        columns ``id`` and ``vector``, for :meth:`Embeddings.load <pmvge.Embeddings.load>`. It is
        replaced in one step, when all rows are embedded: an error leaves what was there before.
        """
        schema = self._known(view)
        shape, K = schema.row_shape, self._fitted.n_components
        if shape is None:  # ids are all there is
            blocks = X if isinstance(X, Iterator) else [(X, None)]
            X = (block if isinstance(block, tuple) else (block, None) for block in blocks)
        wide = K if shape is None or schema.sparse else max(K, math.prod(shape))
        with progress_bar(f"embedding {view}", self.progress) as on_progress:
            embed = partial(self._embed, view)
            parts = stream(
                f"view {view!r}", X, ids, embed, max(1, CHUNK // wide), on_progress=on_progress
            )
            return save_whole(Path(path), parts)

    def _embed(
        self,
        view: str,
        X: Any,
        first: int = 0,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float32]:
        """What :meth:`embed` does, for a view that is known; X begins with row ``first``."""
        shape, fitted = self._fitted.schemas[view].row_shape, self._fitted
        if shape is None:
            return self.embeddings_[view][trained_positions(view, self.ids_[view], X)]
        checked = check_rows(view, X, shape, first=first)
        try:
            return embed_rows(
                fitted.network, view, checked, None, fitted.n_components, on_progress=on_progress
            )
        except (RuntimeError, IndexError, TypeError, ValueError) as error:  # a module of the user's
            raise InputError(f"view {view!r}: its encoder failed on these rows: {error}") from error

    def intensity(self, view: str, X: Any, other: str, X_other: Any) -> NDArray[np.float64]:
        r"""Expected weights :math:`\mu_{ij}` between rows of two views, (n, m).

        The pair must have been observed in training: elsewhere alpha is not known.
        """
        log_alpha = self.log_alpha_of(view, other)
        return intensity(self.embed(view, X), self.embed(other, X_other), log_alpha)

    def search(
        self,
        view: str,
        X: Any,
        *,
        among: str,
        k: int = 10,
        by: Literal["intensity", "similarity"] = "intensity",
        candidates: Any = None,
    ) -> tuple[Ids, NDArray[np.float64]]:
        r"""The k best partners of each row in another view (or the same), best first. Exact.

        Returns ids, and their expected weights (``by="intensity"``) or similarities g
        (``by="similarity"``, which also ranks pairs that were never observed), both (n, k).
        Candidates are the training entities, or the rows ``candidates``, which are then known by
        their positions. Within a view an entity that is itself a candidate finds itself.
        """
        choose("ranking", by, ("intensity", "similarity"), "search: by")
        self._known(among)
        log_alpha = self.log_alpha_of(view, among) if by == "intensity" else 0.0
        queries = self.embed(view, X)
        pool = None if candidates is None else self.embed(among, candidates)
        with progress_bar(f"searching {among}", self.progress) as on_progress:
            if pool is None:
                trained = Embeddings(self.ids_[among], self.embeddings_[among])
                ids, g = trained.nearest(queries, k, on_progress=on_progress)
            else:
                ids, g = top_k(queries, pool, k, on_progress=on_progress)
        if by == "similarity":
            return ids, g.astype(np.float64)
        with np.errstate(over="ignore"):
            return ids, np.exp(g.astype(np.float64) + log_alpha)

    # -- judging it -------------------------------------------------------------------------

    @overload
    def log_likelihood(self, graph: MultiViewGraph) -> float: ...

    @overload
    def log_likelihood(
        self, graph: MultiViewGraph, *, by_pair: Literal[True]
    ) -> dict[Pair, float]: ...

    def log_likelihood(
        self, graph: MultiViewGraph, *, by_pair: bool = False
    ) -> float | dict[Pair, float]:
        r"""Exact :math:`\ell_n = \sum_{I_n} [w \log\mu - \mu]` of a graph; its nodes may be new.

        All pairs count, linked or not: the time it takes grows with ``graph.n_terms``, the product
        of the views' sizes. Memory is needed for the embeddings and little else.
        """
        if not isinstance(graph, MultiViewGraph):
            raise InputError(f"expected a MultiViewGraph, got {type(graph).__name__}")
        log_alpha = {pair: self.log_alpha_of(*pair) for pair in graph.links}
        Y = self.embed_graph(graph)
        with progress_bar("log-likelihood", self.progress) as on_progress:
            values = log_likelihood(graph, Y, log_alpha, on_progress=on_progress)
        return values if by_pair else sum(values.values())

    def score(self, graph: MultiViewGraph, y: Any = None) -> float:
        """The mean :meth:`log_likelihood` per pair term; higher is better."""
        return self.log_likelihood(graph) / max(1, graph.n_terms)

    def embed_graph(self, graph: MultiViewGraph) -> dict[str, NDArray[np.float32]]:
        """Embed all nodes of a graph; nodes of featureless views are known by their ids."""
        Y = {}
        for view, X in graph.views.items():
            featureless = self._known(view).row_shape is None
            if featureless != (X is None):
                raise InputError(
                    f"view {view!r}: {'has' if featureless else 'has no'} features in this graph, "
                    f"but {'had none' if featureless else 'had'} in training"
                )
            Y[view] = self.embed(view, graph.ids[view] if X is None else X)
        return Y

    def describe(self) -> dict[str, Any]:
        """What a fitted model is, in plain data: views, alpha, settings, training."""
        self._check_fitted()
        last, best = (self.history_[-1] if len(self.history_) else None), self.history_.best
        defaults = PMvGE().get_params(deep=False)
        return {
            "n_components": self._fitted.n_components,
            "views": {
                view: {
                    "n": schema.n,
                    "features": schema.describe(),
                    "encoder": describe_choice(self._fitted.choices[view]),
                }
                for view, schema in self._fitted.schemas.items()
            },
            "alpha": {
                f"{a},{b}": {"alpha": entry.value, "relative_error": entry.relative_error}
                for (a, b), entry in self._fitted.alpha.items()
            },
            "training": {
                "steps": last.step if last else 0,
                "seconds": last.seconds if last else 0.0,
                "best_validation": best.validation if best else None,
                "summary": repr(self.history_),
            },
            "changed_settings": {
                name: str(value) if not isinstance(value, int | float | str) else value
                for name, value in self.get_params(deep=False).items()
                if name not in ("progress", "checkpoint_dir") and str(value) != str(defaults[name])
            },
        }

    # -- keeping it -------------------------------------------------------------------------

    def save(self, path: str | Path, *, background: Background | None = None) -> None:
        """Write the model to a folder, atomically: a reader sees the old one or the new one.

        ``background`` keeps the links, and labels, of the training beside the model.
        """
        self._check_fitted()
        save_model(Path(path), self.get_params(deep=False), self._fitted, background)

    @classmethod
    def load(cls, path: str | Path, *, encoders: dict[str, nn.Module] | None = None) -> PMvGE:
        """Read a model from a folder.

        ``encoders`` gives back modules of your own, ``{view: module}``, whose weights are then
        loaded: the folder holds no code.
        """
        parameters, fitted = of_one_save(Path(path), partial(load_model, encoders=encoders or {}))
        try:
            model = cls(**parameters)
            model._take(fitted)
        except (TypeError, ValueError) as error:
            raise StorageError(f"{path}: damaged model: {error}") from error
        return model

    # -- what was asked for, or why not -----------------------------------------------------

    def _check_fitted(self) -> None:
        if not hasattr(self, "_fitted"):
            raise NotFitted("this PMvGE is not fitted yet: call fit(graph) first")

    def _known(self, view: str) -> ViewSchema:
        """The schema of a view; an error if there is no such view, or no fit yet."""
        self._check_fitted()
        if not isinstance(view, str) or view not in self._fitted.schemas:
            known = ", ".join(map(repr, self.view_names_))
            raise InputError(f"unknown view {view!r}: expected one of {known}")
        return self._fitted.schemas[view]

    def log_alpha_of(self, view: str, other: str) -> float:
        r""":math:`\log\alpha` of a view pair in either order; an error if it was not observed."""
        for one in (view, other):
            self._known(one)
        for pair in ((view, other), (other, view)):
            if pair in self._fitted.alpha:
                return self._fitted.alpha[pair].log_value
        observed = ", ".join(f"({a!r}, {b!r})" for a, b in self._fitted.alpha)
        raise InputError(
            f"links between {view!r} and {other!r} were not observed in training, so their alpha "
            f"is not known; observed are {observed}. search(..., by='similarity') ranks any pair"
        )
