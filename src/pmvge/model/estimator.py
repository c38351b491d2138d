"""The estimator PMvGE."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from torch import nn

from pmvge.checks import NotFitted
from pmvge.encoders import EncoderSpec
from pmvge.errors import InputError, ParameterError, choose
from pmvge.graph import Ids, MultiViewGraph, Pair, as_input_ids
from pmvge.likelihoods import Family, intensity, log_likelihood
from pmvge.model.calibrating import calibrate, held_out_factors
from pmvge.model.card import MAX_PAIRS, card_text, write_card
from pmvge.model.describe import describe_model
from pmvge.model.embedding import embed, embed_graph, embed_to_file, find_entities
from pmvge.model.encoder_module import EncoderModule
from pmvge.model.evaluating import evaluate
from pmvge.model.explain import explain
from pmvge.model.explanation import Explanation
from pmvge.model.finding import find_by_name
from pmvge.model.fitted import Factors, Fitted, Labels, texts_of, with_labels
from pmvge.model.fitting import fit
from pmvge.model.fold_in import find_or_fold_in
from pmvge.model.indexing import (
    Index,
    build_index,
    load_index,
    new_candidates,
    training_candidates,
)
from pmvge.model.saving import load_model, save_model
from pmvge.model.searching import known_links
from pmvge.model.training_links import TrainingLinks
from pmvge.model.updating import NoNewRows, find_changes, update
from pmvge.progress import progress_bar
from pmvge.similarities import Similarity
from pmvge.training import Callback, History

Encoder = str | EncoderSpec | dict[str, str | EncoderSpec | nn.Module]


class PMvGE(BaseEstimator):
    r"""Probabilistic Multi-view Graph Embedding.

    One encoder per view maps entities of different kinds to vectors of one space, where inner
    products give the expected weight of every link. The model is fitted by maximum likelihood on
    minibatches. New entities are embedded from their features.

    .. math:: \max_{\alpha, f} \sum_{i,j} [ w_{ij} \log \mu_{ij} - \mu_{ij} ], \qquad
              \mu_{ij} = \alpha^{(d_i, d_j)} \exp \langle f^{(d_i)}(x_i), f^{(d_j)}(x_j) \rangle

    Choose it for several views with features of their own and weighted many-to-many links, above
    all when new entities must be embedded. It needs a training loop; if linear maps are enough,
    CDMCA needs none.

    Parameters
    ----------
    n_components
        Dimension K of the shared space.
    encoder
        "mlp", "linear" or "identity" for all views with features (views without features always
        get "lookup"), or ``{view: name, EncoderSpec or torch.nn.Module}``. Two views that are
        given the same module share its weights.
    hidden_sizes, activation, output_activation, batch_norm
        Settings of "mlp" encoders: widths of the hidden layers; their activation ("tanh", "relu",
        "gelu", "sigmoid" or "identity"); the activation of the last layer; whether hidden layers
        use batch normalisation.
    dropout, input_dropout
        Dropout rates of hidden units, and of input columns. None means 0.5 for sparse views and 0
        for dense views.
    standardize
        Standardise dense columns and scale sparse rows, with statistics of the training rows.
    effects
        What an entity's links say beyond its features: "none" (as in the paper), "bias" (how many
        links it has), "vector" (also which), "auto", or one of them by view. "auto" is
        "vector", and "none" for "identity" encoders, to whose features "vector" would add effects,
        and with the "hyperbolic" similarity. New entities have no effects.
    effects_prior
        Standard deviations of the effects' Gaussian priors: None (learned for each view), a number,
        ``(sigma of vectors, tau of biases)``, or one of these by view.
    similarity
        "inner" (inner product, as in the paper), "cosine" (cosine times a learned scale), "shifted"
        (inner product plus a number of each entity), "weighted" (learned weights of the
        coordinates, which may be negative), "difference" (the second half of the coordinates
        counts negative), "euclidean" (minus half the squared distance), "hyperbolic" (minus the
        Poincaré distance; without effects), or "auto": "cosine" if a view is linked to itself,
        else "inner".
    family
        The distribution of weights: "poisson" (as in the paper), "bernoulli" (linked or not),
        "logistic" (linked or not, with the odds mu), "negative_binomial" (counts that vary more
        than Poisson counts; their dispersion is learned for each view pair) or "beta" (a divergence
        that gives outliers little weight), or ``{(view, view): name}``; other view pairs are then
        Poisson.
    pair_weights
        Factors of view pairs in the objective: None (1, view pairs count in proportion to their
        total weight), "balanced" (in proportion to the square root of their numbers of links), or
        ``{(view, view): factor}``. Expected weights keep their units. Needs ``scheme="block"``.
    scheme
        "block" (profile likelihood on importance-sampled blocks) or "paper" (section 4 of the
        paper).
    batch_size
        Number of links drawn per step ("block"), or the paper's m ("paper").
    negative_rate
        Number of uniformly drawn entities per drawn link, on each side ("block"), or the paper's r
        ("paper").
    tau
        The paper's weight of the uniform pairs. None means the unbiased value |I| / (r |W|).
    max_epochs, max_steps
        Maximum length of training; if both are given, the smaller one counts. An epoch is as many
        link draws as there are links. If both are None, the maximum is 30 epochs, but at least
        1,000 steps, and at most 3,000 steps or 3 epochs, whichever is more.
    learning_rate, schedule, decay_every, decay_factor
        Highest learning rate of Adam, and its schedule: "auto" (warm up, hold the rate until the
        validation stalls, then decay it to 0; without validation, "cosine" with warm-up),
        "constant", "cosine" (decays to 0 at the last step) or "step" (multiplied by
        ``decay_factor`` every ``decay_every`` steps).
    weight_decay, clip_norm
        Decoupled weight decay of the weight matrices (None: 0 if a view has sparse features, else
        1); maximum norm of the gradient (None: no limit).
    validation_fraction, patience
        Fraction of the links that is held out if ``fit`` is given no validation graph, and the
        number of checks without improvement on the held-out links after which the validation has
        stalled. With ``schedule="auto"`` the decay starts then, and the weights at its end are
        kept; with others training stops, and the weights of the best check are kept. With
        ``patience=None`` no links are held out and training does not stop early.
    checkpoint_dir, checkpoint_steps, checkpoint_seconds
        Folder for checkpoints, and how often one is written; see ``fit(graph, resume=True)``.
    device
        "auto", "cpu", "cuda" or "mps".
    precision
        Precision of matrix products in the encoders during training: "float32" or "bfloat16".
        ``fit`` raises ParameterError if the device does not support bfloat16.
    random_state
        Seed or numpy generator. The same seed and number of threads give bitwise equal results.
    progress
        Show a progress bar while fitting, and whenever embedding, searching or evaluating takes
        more than a second. Nothing is shown unless the error stream is a terminal.

    Attributes
    ----------
    embeddings_
        ``{view: (n, K) float32}``: the vectors of the training entities.
    ids_
        ``{view: (n,)}``: the ids of the training entities.
    view_names_
        Names of the views, in the order of the axes of ``alpha_``.
    alpha_
        (D, D), symmetric; 0 for view pairs without links in training.
    log_alpha_
        ``{(view, view): log alpha}`` of the observed view pairs. Also right where ``alpha_``
        overflows or underflows.
    alpha_weight_
        ``{(view, view): total weight}`` of the links that alpha was computed from, validation
        links included.
    alpha_error_
        ``{(view, view): relative standard error}`` of alpha; 0 if it was computed exactly.
    history_
        The training history, a :class:`~pmvge.training.History`.
    similarity_
        The learned :class:`~pmvge.similarities.Similarity`.
    family_
        The learned :class:`~pmvge.likelihoods.Family`.
    labels_, columns_
        ``{view: {name: values}}``: labels and other texts of the training entities, see
        :meth:`label`.
    names_
        ``{view: (n,)}``: the names of the training entities, for views that have names.
    links_
        The links that the model was fitted to, by positions of the entities: ``links_.training``
        and ``links_.held_out``, both ``{(view, view): Links}``; None if it was saved without them.
    tables_
        How rows of features are made from raw tables, if the graph was read from tables; else
        None.
    checksum_
        The checksum of the folder that the model was loaded from; None if it was fitted or changed
        in this process.

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

    # Properties of the method, as in table 1 of the paper.
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
    similarity_: Similarity
    family_: Family
    labels_: Labels
    columns_: Labels
    names_: dict[str, NDArray[Any]]
    links_: TrainingLinks | None
    checksum_: str | None

    def __init__(
        self,
        n_components: int = 100,
        *,
        encoder: Encoder = "mlp",
        hidden_sizes: tuple[int, ...] = (128,),
        activation: str = "relu",
        output_activation: str = "identity",
        batch_norm: bool = False,
        dropout: float | None = None,
        input_dropout: float | None = None,
        standardize: bool = True,
        effects: str | dict[str, str] = "auto",
        effects_prior: Any = None,
        similarity: str = "auto",
        family: str | dict[Any, str] = "poisson",
        pair_weights: str | dict[Any, float] | None = None,
        scheme: str = "block",
        batch_size: int = 256,
        negative_rate: float = 1.0,
        tau: float | None = None,
        max_epochs: float | None = None,
        max_steps: int | None = None,
        learning_rate: float = 2e-3,
        schedule: str = "auto",
        decay_every: int = 100,
        decay_factor: float = 0.1,
        weight_decay: float | None = None,
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
        self.effects = effects
        self.effects_prior = effects_prior
        self.similarity = similarity
        self.family = family
        self.pair_weights = pair_weights
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
        start: PMvGE | None = None,
        hold_out: float | None = None,
        calibrate: float | None = None,
        resume: bool = False,
        sharded: bool = False,
        callbacks: Iterable[Callback] = (),
    ) -> Self:
        """Learn the encoders and alpha from the links of a graph, and return ``self``.

        In processes started by ``torchrun``, all processes train one model, each on its share of
        the links. After a restart they resume from the checkpoint.

        Parameters
        ----------
        graph
            The training graph.
        validation
            Held-out links between the same entities, for early stopping. Without it,
            ``validation_fraction`` of the links is held out. In both cases alpha is finally
            computed from all links, so no link should be in both graphs.
        start
            A fitted model to start training from, instead of random weights. Views, view pairs,
            dimensions, columns of tables, encoders, similarity and effects must be those of this
            model; entities may differ. Entities with the same given ids start from its effects, or
            from its vectors in views without features; effects of new ones are folded in from their
            links with known entities. Input scaling is kept.
        hold_out
            Share of the links to hold out instead of ``validation_fraction``, in [0, 1). With
            ``patience=None`` they are not used for early stopping, only by :meth:`evaluate`. 0
            means no held-out links and no early stopping.
        calibrate
            Share of the entities of each view with features to calibrate with, in (0, 1), for
            instance 0.1: a first model is fitted without them, and gives the factors of
            :meth:`calibrate`. The model itself is then fitted to all entities. The first model has
            no checkpoints: with ``resume`` it is fitted again. None: no factors.
        resume
            Resume from the checkpoint in ``checkpoint_dir``. Without a checkpoint, training starts
            from the beginning.
        sharded
            With several processes: ``graph`` and ``validation`` hold only the links of this
            process. Every process needs all entities of featureless views; views with features
            may have different entities in each process. The model then keeps no training links.
        callbacks
            Objects that are called while training, see :class:`pmvge.training.Callback`, for
            example ``[TensorBoard("runs/first")]``. Of several processes only the first calls them.

        Raises
        ------
        ParameterError, GraphError
            A parameter or a graph is not valid.
        DivergedError
            Training produced a number that is not finite.
        StorageError
            A checkpoint cannot be written, is damaged, or belongs to other data or settings.
        """
        settings = self.get_params(deep=False)
        if start is not None and not isinstance(start, PMvGE):
            raise ParameterError(f"start: expected a fitted PMvGE, got {type(start).__name__}")
        factors: Factors = {}
        if calibrate is not None:
            if sharded:
                raise ParameterError("fit: expected calibrate or sharded, got both")
            factors = held_out_factors(settings, graph, validation, calibrate, hold_out)
        fitted = fit(
            settings,
            graph,
            validation,
            hold_out=hold_out,
            resume=resume,
            sharded=sharded,
            start=None if start is None else start._check_fitted(),
            callbacks=callbacks,
        )
        self._set_fitted(replace(fitted, factors=factors))
        return self

    def update(self, graph: MultiViewGraph) -> Self:
        """Train on a graph that has changed since the fit, starting from this model.

        The graph has all entities and links of today, old and new. Known entities, recognised by
        given ids, start from what the model knows of them; new ones are folded in from their first
        links. A short training with a decaying rate follows, of a sixth of the steps of the fit. No
        optimizer state is kept, and no checkpoints are written. Links that were held out stay held
        out, and so does the same share of the new ones. Entities and links that the graph does not
        have are removed. Settings, labels, columns and factors of :meth:`calibrate` stay.

        If the graph has no new, changed or removed entities and links, the model does not change,
        and a ``NoNewRows`` warning says so. Return ``self``.

        Raises
        ------
        InputError
            If views, view pairs, dimensions or columns differ from those of the model, if ids have
            another type, if ids were not given, or if the model has no training links.
        DivergedError
            Training produced a number that is not finite; the model has not changed.
        """
        fitted = self._check_fitted()
        changes = find_changes(fitted, graph)
        if not changes.any:
            warnings.warn(
                "update: the graph has no new rows: the model is unchanged", NoNewRows, stacklevel=2
            )
            return self
        self._set_fitted(update(fitted, changes, progress=self.progress))
        return self

    def changes(self, graph: MultiViewGraph) -> dict[str, dict[str, dict[str, int]]]:
        """Return how many entities and links of a graph are new, changed or gone.

        The form is ``{"views": {view: {"new", "gone"}}, "links": {"users,films": {"new", "changed",
        "gone"}}}``. Raise InputError as :meth:`update` does.
        """
        return find_changes(self._check_fitted(), graph).describe()

    def __sklearn_clone__(self) -> Self:
        # scikit-learn clones the values of a dict separately: a module shared by two views would
        # become two modules.
        return type(self)(**copy.deepcopy(self.get_params(deep=False)))

    def _set_fitted(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.embeddings_, self.ids_ = fitted.embeddings, fitted.ids
        self.view_names_, self.history_ = tuple(fitted.schemas), fitted.history
        self.tables_, self.labels_, self.links_ = fitted.tables, fitted.labels, fitted.links
        self.similarity_, self.family_ = fitted.similarity, fitted.family
        self.columns_, self.checksum_ = fitted.columns, None
        self.names_ = {view: texts_of(fitted, view)[name] for view, name in fitted.names.items()}
        self.log_alpha_ = {pair: entry.log_value for pair, entry in fitted.alpha.items()}
        self.alpha_weight_ = {pair: entry.weight for pair, entry in fitted.alpha.items()}
        self.alpha_error_ = {pair: entry.relative_error for pair, entry in fitted.alpha.items()}
        self.alpha_ = np.zeros((len(self.view_names_),) * 2)
        for (a, b), entry in fitted.alpha.items():
            i, j = self.view_names_.index(a), self.view_names_.index(b)
            self.alpha_[i, j] = self.alpha_[j, i] = entry.value

    def _check_fitted(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise NotFitted("this PMvGE is not fitted yet: call fit(graph) first")
        return self._fitted

    # -- prediction -------------------------------------------------------------------------

    def embed(self, view: str, X: Any = None, *, ids: Any = None) -> NDArray[np.float32]:
        r"""Return the vectors (n, K) of known or new entities of a view.

        For the similarities "inner" and "cosine", ``embed(a) @ embed(b).T`` is :math:`g`, including
        the learned scale, but without biases, which :meth:`vectors` includes. Raise NotFitted
        before ``fit``, InputError if the view is unknown or X does not match the rows in training,
        and NotInductive for ids without features that were not in training.

        Parameters
        ----------
        X
            Features (n, ...) of entities. Without ``ids`` all rows are new entities. For a
            featureless view, X are ids of training entities.
        ids
            Ids of the entities. Without X they must be training entities. With X, rows whose id
            was given in training are known entities; default ids (0, 1, ...) identify no row.
        """
        fitted = self._check_fitted()
        fitted.schema_of(view)
        with progress_bar(f"embedding {view}", self.progress) as on_progress:
            return embed(fitted, view, X, ids=ids, on_progress=on_progress)

    def fold_in(
        self,
        view: str,
        X: Any = None,
        *,
        links: Any,
        ids: Any = None,
        exposure: float | None = None,
    ) -> NDArray[np.float32]:
        r"""Return the vectors (n, K) of new entities from their features and their first links.

        Encoders and all known entities stay as they are. The effects of each new entity maximise
        the likelihood of its links, plus the log-density of the effects' prior. A row without
        links has the vector of :meth:`embed`. :meth:`search` and :meth:`vectors` take the same
        ``links``.

        By default the level of a row is not observed: which partners it has counts, given the
        total of its weights, because a newcomer's other links are "not yet". For Poisson weights
        the log-likelihood is then :math:`\sum_j w_{ij} \eta_{ij} - w_{i\cdot} \log \sum_j
        e^{\eta_{ij}}`, and the effect of the bias stays 0. For other families it is the
        log-likelihood, maximal in a level of the row that is added to :math:`\eta`.

        Parameters
        ----------
        X
            Features (n, ...) of the new entities. None for a featureless view with
            ``effects="vector"``, where rows are numbered by ``links``.
        links
            ``{other view: (rows, ids, weights)}``: row numbers of X, ids of known entities, and
            weights (1 if left out). Repeated links add up.
        ids
            Ids of the rows, as in :meth:`embed`: rows whose id was given in training are known
            entities, which keep their effects and can have no first links.
        exposure
            None: zeros are not observed. A number s: the links were collected over a share s of
            the training's exposure, so that the expected weight is :math:`s \mu_{ij}`, and zeros
            are observed. With 1 they say as much as in training.

        Raises
        ------
        InputError
            If the view has no effects, a view pair was not observed in training, ids are unknown,
            row numbers are out of range, or weights are negative or not finite.
        """
        fitted = self._check_fitted()
        fitted.schema_of(view)
        with progress_bar(f"folding in {view}", self.progress) as on_progress:
            found = find_or_fold_in(
                fitted, view, X, ids, links=links, exposure=exposure, on_progress=on_progress
            )
        return found.outputs[:, : fitted.n_components]

    def embed_to(self, path: str | Path, view: str, X: Any, ids: Any = None) -> int:
        """Write ids and vectors of any number of rows to a Parquet file; return the row count.

        The vectors are those of :meth:`embed`. Rows are checked and embedded in chunks of some
        thousands: X may be a memory map larger than memory, an iterator of chunks of rows, or an
        iterator of pairs ``(ids, rows)`` as :func:`pmvge.tables.read_rows` yields them.

        ``ids`` are the ids of all rows; by default rows are numbered from 0. Repeated ids are not
        detected. For a featureless view, X are the ids. The file has the columns ``id`` and
        ``vector`` and can be read with :meth:`Embeddings.load <pmvge.Embeddings.load>`. It is
        replaced atomically after all rows are embedded: an error leaves an existing file as it was.
        Raise InputError if rows or ids are not valid, and StorageError if the file cannot be
        written.
        """
        fitted = self._check_fitted()
        return embed_to_file(fitted, Path(path), view, X, ids, show_progress=self.progress)

    def embed_graph(self, graph: MultiViewGraph) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of all entities of a graph, ``{view: (n, K)}``.

        Entities of featureless views are looked up by their ids. Raise InputError or NotInductive
        as :meth:`embed` does.
        """
        fitted = self._check_fitted()
        found = embed_graph(fitted, graph, show_progress=self.progress)
        return {view: part.outputs[:, : fitted.n_components] for view, part in found.items()}

    def vectors(
        self,
        view: str,
        X: Any = None,
        *,
        ids: Any = None,
        links: Any = None,
        exposure: float | None = None,
        among: str | None = None,
        side: Literal["query", "candidate"] = "query",
    ) -> NDArray[np.float32]:
        r"""Return vectors whose inner products rank partners, (n, Q), for any vector index.

        ``query`` vectors of one view and ``candidate`` vectors of another have the inner product
        that :meth:`search` ranks by; the similarity g is an increasing function of it. For the
        similarities "inner" and "cosine" both are the vectors of :meth:`embed`; where a view has
        effects, with two more coordinates for the biases. Raise InputError as :meth:`embed` does,
        and if ``among`` is missing where biases depend on it.

        Parameters
        ----------
        X, ids
            Entities, as in :meth:`embed`. Without both, all training entities.
        links, exposure
            First links of new entities, as in :meth:`fold_in`.
        among
            The view of the partners. Needed if this view, or one that it is linked to, has effects:
            biases depend on the view pair.
        side
            "query" for entities that look for partners, "candidate" for possible partners.
        """
        fitted = self._check_fitted()
        choose("side", side, ("query", "candidate"), "vectors: side")
        for name in (view, *([] if among is None else [among])):
            fitted.schema_of(name)
        if among is None and any(
            view in pair for pairs in fitted.network.bias_pairs.values() for pair in pairs
        ):
            raise InputError(
                f"vectors: links of view {view!r} have biases, which depend on the view of the "
                "partners: expected among"
            )
        with progress_bar(f"embedding {view}", self.progress) as on_progress:
            Y = find_or_fold_in(
                fitted, view, X, ids, links=links, exposure=exposure, on_progress=on_progress
            ).outputs
        similarity = fitted.pair_similarity.for_pair(view, view if among is None else among)
        if side == "candidate" and among is not None:
            similarity = fitted.pair_similarity.for_pair(among, view)
        mapped = similarity.query_array(Y) if side == "query" else similarity.candidate_array(Y)
        return np.array(mapped, np.float32)  # a copy, not embeddings_

    def encoder_module(self, view: str) -> EncoderModule:
        """Return a torch module that maps rows of features of new entities to their vectors.

        It includes the input scaling, and shares its weights with the model. Raise InputError if
        the view is unknown or has no features.
        """
        return EncoderModule(self._check_fitted(), view)

    def intensity(
        self,
        view: str,
        X: Any,
        other: str,
        X_other: Any,
        *,
        ids: Any = None,
        ids_other: Any = None,
    ) -> NDArray[np.float64]:
        r"""Return the expected weights :math:`\mu_{ij}` between entities of two views, (n, m).

        X and ``ids``, and X_other and ``ids_other``, give the entities as in :meth:`embed`; where
        both are None, all training entities. Expected weights of new entities can be wrong by a
        factor before :meth:`calibrate`. Raise InputError if the view pair was not observed in
        training: its alpha is unknown.
        """
        fitted = self._check_fitted()
        fitted.alpha_of(view, other)
        left, right = (
            find_entities(fitted, v, rows, names)
            for v, rows, names in ((view, X, ids), (other, X_other, ids_other))
        )
        return intensity(
            left.outputs,
            right.outputs,
            fitted.level_of(view, other, left.new, right.new),
            similarity=fitted.pair_similarity.for_pair(view, other),
            family=fitted.family_of(view, other),
        )

    def search(
        self,
        view: str,
        X: Any = None,
        *,
        ids: Any = None,
        links: Any = None,
        exposure: float | None = None,
        among: str,
        k: int = 10,
        by: Literal["intensity", "similarity"] = "intensity",
        exclude: Any = None,
        allow: Any = None,
        deny: Any = None,
        min_weight: float | None = None,
        candidates: Any = None,
    ) -> tuple[Ids, NDArray[np.float64]]:
        r"""Return the k best partners of each entity in view ``among``, best first; exact.

        Return ids and scores, both (n, k). Where fewer than k candidates are left, the last scores
        are NaN, and their ids -1 or "". Raise InputError if a view, ``k``, a filter or X is not
        valid or, with ``by="intensity"``, if the view pair was not observed in training.

        Many calls cost less with an :meth:`index`, which prepares the candidates once.

        Parameters
        ----------
        X, ids
            The entities to search for, as in :meth:`embed`. Without both, all training entities.
        links, exposure
            First links of new entities, as in :meth:`fold_in`: row numbers of X, or of the ids of a
            featureless view. Without exposure, expected weights of one row are known up to a
            factor. ``exclude="known"`` leaves out these links, too.
        among
            The view to search in.
        k
            Number of partners.
        by
            Scores are expected weights ("intensity") or similarities g ("similarity", which also
            ranks view pairs that were not observed). Expected weights of new entities can be wrong
            by a factor before :meth:`calibrate`; :meth:`uncalibrated` says for which ones.
        exclude
            Candidates to leave out: "known" for those that an entity was linked to in training
            (validation links included) and, within a view, the entity itself; "self" for the entity
            itself; or ids, for all entities alike. Only known entities have training links.
        allow, deny
            Ids of the only candidates, and ids to leave out, for all entities alike.
        min_weight
            Least expected weight of a partner.
        candidates
            Features of candidates, as X of :meth:`embed`; then positions are returned as ids. They
            are new entities, so ``exclude`` leaves out none of them; for a featureless view they
            are ids of training entities. By default the training entities of ``among``.
        """
        fitted = self._check_fitted()
        for name in (view, among):
            fitted.schema_of(name)
        if candidates is None:
            pool = training_candidates(fitted, among, view)
        else:
            pool = new_candidates(fitted, among, view, candidates)
        return Index(fitted, pool, view, progress=self.progress).search(
            X,
            ids=ids,
            links=links,
            exposure=exposure,
            k=k,
            by=by,
            exclude=exclude,
            allow=allow,
            deny=deny,
            min_weight=min_weight,
        )

    def index(
        self, view: str, among: str | None = None, kind: Literal["exact", "hnsw"] = "exact"
    ) -> Index:
        """Return an index of the training entities of a view, as candidates for many searches.

        ``model.index("films", among="users").search(ids=["u7"])`` returns the best films of a user,
        as ``model.search("users", ids=["u7"], among="films")`` does. The index holds vectors of
        ``view`` as :meth:`vectors` returns them for partners in ``among``.

        Parameters
        ----------
        view
            The view of the candidates.
        among
            The view of the entities that are searched for. By default ``view`` itself: similar
            entities; if links within the view were not observed, search it ``by="similarity"``.
        kind
            "exact" compares every candidate. "hnsw" looks at few of them, in a graph that takes
            minutes to build for a million candidates; its recall is measured when it is built, and
            is in ``index.recall``. It needs the extra ``ann``.

        Raises
        ------
        InputError
            If a view or the kind is unknown, or if the extra is not installed.
        """
        return build_index(self._check_fitted(), view, among, kind, progress=self.progress)

    def load_index(self, folder: str | Path, view: str, among: str | None = None) -> Index:
        """Return the approximate index that :meth:`Index.save <pmvge.model.Index.save>` wrote.

        Raise StorageError if the folder has none, if it is damaged, or if it is stale: built from
        other vectors than those of this model.
        """
        fitted = self._check_fitted()
        return load_index(fitted, Path(folder), view, among, progress=self.progress)

    def explain(
        self,
        view: str,
        entity: Any,
        other: str,
        partner: Any,
        *,
        X: Any = None,
        X_other: Any = None,
        links: Any = None,
        exposure: float | None = None,
        max_parts: int = 20,
        k: int = 5,
    ) -> Explanation:
        r"""Return the terms that add up to the log expected weight of one entity pair.

        They are log alpha, the factor of :meth:`calibrate` for new entities, the biases of both
        entities (from features, and from effects), and the similarity of their vectors, split by
        integrated gradients over features and effects of both entities jointly. Features of a raw
        table are named by its columns and values, those of arrays by their numbers. A remainder,
        the error of the numerical integral, makes the sum exact; it is at most 1 % of the
        similarity's difference from the baseline, or 1e-4.

        The baseline is an average entity without links: the mean row of the training, a row of
        zeros for sparse features and user-defined modules, and effects 0. For families whose
        expected weight is not :math:`e^\eta`, the terms add up to :math:`\eta`.

        Parameters
        ----------
        entity, partner
            The two entities: an id of the training; a row of features, for a new entity; or a dict
            ``{column: value}`` of a raw table's row, which is new unless it has a known id.
        X, X_other
            Rows of features of entities that are given by their ids. Without them, features are
            taken from the columns that the model keeps. If it does not keep all of them, they are
            one part, and a note says so.
        links, exposure
            First links of a new ``entity``, ``{view: (rows, ids, weights)}`` with row number 0, and
            their exposure, as in :meth:`fold_in`. What they add is a part of its own, and they are
            the evidence. ``entity`` may be None in a view without features. If the partner is the
            new one, exchange the two.
        max_parts
            Number of features of each entity that are listed; the others are added up.
        k
            Number of known partners that are listed as evidence.

        Raises
        ------
        InputError
            If a view, id, row or column is not valid, or if the view pair was not observed in
            training.
        """
        fitted = self._check_fitted()
        for name, value, least in (("max_parts", max_parts, 1), ("k", k, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"explain: {name}: expected an integer >= {least}, got {value!r}")
        return explain(
            fitted,
            view,
            entity,
            other,
            partner,
            X=X,
            X_other=X_other,
            links=links,
            exposure=exposure,
            max_parts=max_parts,
            k=k,
        )

    def known_links(self, view: str, ids: Any, *, among: str) -> sparse.csr_array:
        """Return the weights of links between known entities and all entities of ``among``.

        They are the links that were given to ``fit``, validation links included, as a matrix
        (n, m). New ids have none. Raise InputError if a view is unknown, or if the model was saved
        without its links.
        """
        fitted = self._check_fitted()
        for name in (view, among):
            fitted.schema_of(name)
        wanted = fitted.positions_of(view, as_input_ids(f"view {view!r}: ids", ids))
        return known_links(fitted, view, wanted, among)

    def is_known(self, view: str, ids: Any) -> NDArray[np.bool_]:
        """Return which ids are those of training entities, (n,).

        In a view with features only ids that were given in training identify entities. Raise
        InputError if the view is unknown or ids are not valid.
        """
        fitted = self._check_fitted()
        given = as_input_ids(f"view {view!r}: ids", ids)
        if fitted.schema_of(view).row_shape is not None and view not in fitted.given_ids:
            return np.zeros(len(given), bool)
        return np.asarray(fitted.positions_of(view, given) >= 0)

    def calibrate(self, graph: MultiViewGraph, *, exposure: float = 1.0) -> Self:
        r"""Set the factors of the expected weights of new entities, and return ``self``.

        Alpha is fitted to training entities, so that expected weights of entities that are placed
        by their features can be wrong by a factor. The graph has entities that were not in
        training. For each view pair, and for new entities with known ones, known with new, and new
        with new, one factor is set if the graph has such links: the observed over the expected
        total weight for Poisson weights, and the ratio of the alphas for other families. Sums over
        more than some hundred million entity pairs are estimated on samples.

        :meth:`intensity`, :meth:`search` by intensity, :meth:`evaluate` and
        :meth:`log_likelihood` multiply the expected weights of new entities by these factors.
        Similarities, vectors, and the order of partners do not change. Kinds without links in the
        graph keep the factor that they had.

        Parameters
        ----------
        graph
            New entities with all their links, and known ones, recognised by ids that were given to
            ``fit``. Entity pairs without a link count as weight 0.
        exposure
            Observed weight per unit of expected weight: 0.5 if the links of the graph were
            collected over half of the time of the training links.

        Raises
        ------
        InputError
            If both ends of a link were in training, if no entity is new, or if a view pair was not
            observed in training.
        """
        fitted = self._check_fitted()
        self._set_fitted(calibrate(fitted, graph, exposure=exposure, show_progress=self.progress))
        return self

    def uncalibrated(self, view: str, other: str) -> tuple[str, ...]:
        """Return the kinds of new entities whose expected weights are not calibrated.

        The kinds are "new-known" (new entities of ``view`` with known ones of ``other``),
        "known-new" and "new-new"; within a view the first two are one. Raise InputError if the view
        pair was not observed in training.
        """
        fitted = self._check_fitted()
        fitted.alpha_of(view, other)
        return tuple(
            name
            for name, kind in fitted.kinds_of(view, other).items()
            if fitted.factor_of(view, other, kind) is None
        )

    def log_alpha_of(self, view: str, other: str) -> float:
        r"""Return :math:`\log\alpha` of a view pair, in either order.

        Raise InputError if the view pair was not observed in training.
        """
        return self._check_fitted().log_alpha_of(view, other)

    # -- evaluation -------------------------------------------------------------------------

    @overload
    def log_likelihood(self, graph: MultiViewGraph) -> float: ...

    @overload
    def log_likelihood(
        self, graph: MultiViewGraph, *, by_pair: Literal[True]
    ) -> dict[Pair, float]: ...

    def log_likelihood(
        self, graph: MultiViewGraph, *, by_pair: bool = False
    ) -> float | dict[Pair, float]:
        r"""Return the exact log-likelihood of a graph.

        For the Poisson family it is :math:`\ell_n = \sum_{I_n} [w \log\mu - \mu]`.

        The graph may have new entities. All pairs count, linked or not: the time grows with
        ``graph.n_terms``, the product of the views' sizes. Memory is needed for the vectors and
        little else. With ``by_pair``, return ``{(view, view): log-likelihood}``. Raise InputError
        if a view pair of the graph was not observed in training, or if its family is a divergence.
        """
        if not isinstance(graph, MultiViewGraph):
            raise InputError(
                f"log_likelihood: expected a MultiViewGraph, got {type(graph).__name__}"
            )
        fitted = self._check_fitted()
        for pair in graph.links:
            fitted.alpha_of(*pair)
        fitted.require_likelihood("log_likelihood", graph.links)
        found = embed_graph(fitted, graph, show_progress=self.progress)
        with progress_bar("log-likelihood", self.progress) as on_progress:
            values = log_likelihood(
                graph,
                {view: part.outputs for view, part in found.items()},
                {(a, b): fitted.level_of(a, b, found[a].new, found[b].new) for a, b in graph.links},
                similarity=fitted.pair_similarity,
                family=self.family_,
                on_progress=on_progress,
            )
        return values if by_pair else sum(values.values())

    def score(self, graph: MultiViewGraph, y: Any = None) -> float:
        """Return the mean :meth:`log_likelihood` per pair of entities; higher is better."""
        return self.log_likelihood(graph) / max(1, graph.n_terms)

    def evaluate(
        self,
        links: Any = None,
        *,
        k: int = 10,
        include_known: bool = False,
        exposure: float | None = None,
        max_pairs: int = 10**8,
    ) -> dict[str, Any]:
        """Return how well the model predicts held-out links, and how well a popularity list does.

        For a model with effects, its scores without them are beside it. Every entity of a pair's
        first view that has a held-out link is a query; all entities of the second view are ranked,
        without the links that the model was fitted to.

        Parameters
        ----------
        links
            ``{(view, view): links}`` between training entities: ids and weights ``(ids, ids,
            weights)``, or a sparse matrix of the training entities; or a MultiViewGraph, which may
            have new entities. A graph with all ids of the training in their order, given or
            default, has the training entities; in other graphs only given ids identify entities. By
            default the links that ``fit`` held out; they were used for early
            stopping, if ``patience`` was set.
        k
            Length of the ranked lists for recall and nDCG.
        include_known
            Rank known links, too.
        exposure
            Held-out weight per unit of expected weight; by default the total weight of the links
            divided by the total weight given to ``fit``.
        max_pairs
            Number of entity pairs above which queries are sampled.

        Returns
        -------
        results
            ``{"pairs": {"users,films": metrics}, "overall": metrics, "popularity": ...}``, with the
            metrics of :func:`pmvge.evaluation.evaluate_links`. ``in_training`` counts links that
            were in training. "popularity" has the same form, and a sentence "meaning"; so has
            "features_only", the model without effects, if entities with features have effects.
            "uncalibrated" lists, for view pairs with new entities, the kinds whose expected weights
            are not calibrated (see :meth:`uncalibrated`): their E/O and deviance mean little.
            "warnings" are sentences for view pairs in which the model is not clearly ahead of the
            popularity list: the 95 % interval of the difference in nDCG, by query, includes 0.

        Raises
        ------
        InputError
            If links are not valid, if all of them were in training, or if the model was saved
            without its links.
        """
        return evaluate(
            self._check_fitted(),
            links,
            include_known=include_known,
            exposure=exposure,
            k=k,
            max_pairs=max_pairs,
            show_progress=self.progress,
        )

    def describe(self) -> dict[str, Any]:
        """Return a description of the model as plain data.

        It has the views, links, alpha, similarity, family, training, settings, and how columns of
        tables are read.
        """
        return describe_model(self._check_fitted(), PMvGE().get_params(deep=False))

    def card(self) -> str:
        """Return the model card, in Markdown: data, scores, settings, limits, and how to load it.

        Scores are those of :meth:`evaluate` on the links that ``fit`` held out, on a sample of the
        queries if there are many. :meth:`save` writes the card to ``model_card.md``.
        """
        return self._card(links=self._check_fitted().links is not None)

    def _card(self, *, links: bool) -> str:
        fitted = self._check_fitted()
        results = None if fitted.links is None else self.evaluate(max_pairs=MAX_PAIRS)
        stopping = fitted.settings["patience"] is not None
        return card_text(self.describe(), results, early_stopping=stopping, links=links)

    def label(
        self,
        labels: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> Self:
        """Add labels, other columns and names of the training entities, and return ``self``.

        They are saved with the model, shown in results, and not used in training. Raise InputError
        for an unknown view or column, or a wrong number of values.

        Parameters
        ----------
        labels
            ``{view: {name: values}}``: the map of the report can be coloured by them.
        columns
            ``{view: {name: values}}``: other texts that results can show.
        names
            ``{view: name}``: the label or column with the names of the entities, which reports and
            ``pmvge search`` show before ids, and :meth:`find` looks up.
        """
        fitted = with_labels(self._check_fitted(), labels or {}, columns or {}, names or {})
        self._set_fitted(fitted)
        return self

    def find(self, view: str, texts: Any, *, suggest: bool = True) -> Ids:
        """Return the ids of training entities from ids or names, given as one text or several.

        An id is preferred to a name, and an equal name to one that differs in case only. Raise
        InputError, which lists similar ids and names, if nothing matches, and with the ids if
        several entities have the name. ``suggest=False`` saves the search for similar ones, which
        takes seconds among 100,000 names.
        """
        fitted = self._check_fitted()
        fitted.schema_of(view)
        names = [texts] if np.isscalar(texts) else list(texts)
        return find_by_name(fitted, view, names, suggest=suggest)

    # -- saving and loading -----------------------------------------------------------------

    def save(self, path: str | Path, *, links: bool = True) -> None:
        """Write the model to a folder, atomically: a reader sees the old model or the new one.

        With ``links=False`` the training links are left out; then ``exclude="known"`` and
        ``evaluate`` do not work after loading. The :meth:`card` is written beside the model, to
        ``model_card.md``. Raise NotFitted before ``fit``, and StorageError if the folder cannot be
        written.
        """
        fitted = self._check_fitted()
        card = self._card(links=links and self.links_ is not None)
        save_model(Path(path), fitted, links=links)
        write_card(Path(path), card)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoders: dict[str, nn.Module] | None = None,
        memory_map: str | Path | None = None,
    ) -> PMvGE:
        """Return the model that :meth:`save` wrote to a folder.

        A folder holds no code. ``encoders`` gives the user-defined modules of the model,
        ``{view: module}``; copies of them get the saved weights. Raise StorageError if the folder
        holds no model or a damaged one, or if a user-defined module is not given.

        ``memory_map`` is a folder for memory-mapped copies of the arrays: processes that load the
        model with the same folder share one copy in memory. The first one writes it, to a subfolder
        that is named by the checksum of the model. Nobody else may change its files.
        """
        folder = None if memory_map is None else Path(memory_map)
        fitted = load_model(Path(path), encoders or {}, cls().get_params(deep=False), folder)
        model = cls(**fitted.settings)
        model._set_fitted(fitted)
        model.checksum_ = fitted.checksum
        return model
