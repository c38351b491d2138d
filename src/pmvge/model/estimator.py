"""The estimator PMvGE: its parameters, training, and model folders.

The methods that answer questions of a fitted model are in :mod:`pmvge.model.mixins`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from sklearn.base import BaseEstimator
from torch import nn

from pmvge.encoders import EncoderSpec
from pmvge.errors import ParameterError
from pmvge.graph import MultiViewGraph
from pmvge.model.card import MAX_PAIRS, card_text, write_card
from pmvge.model.describe import describe_model
from pmvge.model.fitted import Factors, with_labels
from pmvge.model.fitting.calibrating import calibrate, held_out_factors
from pmvge.model.fitting.fit import fit
from pmvge.model.fitting.updating import NoNewRows, find_changes, update
from pmvge.model.mixins import EmbeddingMixin, EvaluationMixin, SearchMixin
from pmvge.model.saving.model_folder import load_model, save_model
from pmvge.training import Callback, check_callbacks

Encoder = str | EncoderSpec | dict[str, str | EncoderSpec | nn.Module]


class PMvGE(EmbeddingMixin, SearchMixin, EvaluationMixin, BaseEstimator):
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
        Dropout rates of hidden units, and of input columns. None means 0.5 for views with sparse
        features that are linked to themselves, and 0 for others.
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
        Decoupled weight decay of the weight matrices (None: 0 if a view with sparse features is
        linked to itself, else 1); maximum norm of the gradient (None: no limit).
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
        settings, callbacks = self.get_params(deep=False), check_callbacks(callbacks)
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
            ``fit``, or as in :meth:`evaluate`. Entity pairs without a link count as weight 0.
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

        They are saved with the model, shown in results, and not used in training. Missing values
        (None, NaN, pandas.NA) are saved as "". Raise InputError for an unknown view or column, or a
        wrong number of values.

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
